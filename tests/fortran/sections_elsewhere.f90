! Array sections in one-sided communication, packing and partitioned communication.
! Any number of ranks: each works with its neighbours in a ring.

! What C gets for one-sided communication: these procedures stand in for C's, and pack and unpack what they get.
module stand_ins
  use, intrinsic :: iso_c_binding
  implicit none

  integer, parameter :: length = 40
  double precision, target :: memory(length)

  interface
    integer(c_int) function c_pack(buffer, count, datatype, to, size, position, comm) bind(c, name="PMPI_Pack")
      import
      type(c_ptr), value :: buffer, to
      integer(c_int), value :: count, size
      integer(c_int) :: position
      integer(c_intptr_t), value :: datatype, comm
    end function c_pack
    integer(c_int) function c_unpack(from, size, position, buffer, count, datatype, comm) bind(c, name="PMPI_Unpack")
      import
      type(c_ptr), value :: buffer, from
      integer(c_int), value :: count, size
      integer(c_int) :: position
      integer(c_intptr_t), value :: datatype, comm
    end function c_unpack
  end interface

  ! `MPI_COMM_SELF`
  integer(c_intptr_t), parameter :: self = 258

contains

  integer(c_int) function put(buffer, count, datatype, rank, place, there_count, there_datatype, window) &
      bind(c, name="MPI_Put")
    type(c_ptr), value :: buffer
    integer(c_int), value :: count, rank, there_count
    integer(c_intptr_t), value :: datatype, place, there_datatype, window
    integer(c_int) :: position
    position = 0
    put = c_pack(buffer, count, datatype, c_loc(memory), 8 * length, position, self)
    if (position /= 8 * there_count) error stop "MPI_Put: other bytes than there"
  end function put

  integer(c_int) function get(buffer, count, datatype, rank, place, there_count, there_datatype, window) &
      bind(c, name="MPI_Get")
    type(c_ptr), value :: buffer
    integer(c_int), value :: count, rank, there_count
    integer(c_intptr_t), value :: datatype, place, there_datatype, window
    integer(c_int) :: position
    position = 0
    get = c_unpack(c_loc(memory), 8 * there_count, position, buffer, count, datatype, self)
    if (position /= 8 * there_count) error stop "MPI_Get: other bytes than there"
  end function get

  integer(c_int) function get_accumulate(buffer, count, datatype, result, result_count, result_datatype, rank, place, &
      there_count, there_datatype, operation, window) bind(c, name="MPI_Get_accumulate")
    type(c_ptr), value :: buffer, result
    integer(c_int), value :: count, rank, there_count, result_count
    integer(c_intptr_t), value :: datatype, place, there_datatype, result_datatype, operation, window
    get_accumulate = get(result, result_count, result_datatype, rank, place, there_count, there_datatype, window)
    if (get_accumulate == 0) get_accumulate = put(buffer, count, datatype, rank, place, there_count, there_datatype, window)
  end function get_accumulate
end module stand_ins

program sections_elsewhere
  use mpi_f08
  use stand_ins, only : memory
  use, intrinsic :: iso_c_binding, only : c_ptr
  implicit none

  integer, parameter :: n = 40
  integer :: rank, ranks, left, right
  double precision, asynchronous :: a(3, n), b(3, n)

  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, rank)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks)
  right = mod(rank + 1, ranks)
  left = mod(rank - 1 + ranks, ranks)

  call one_sided()
  call packing()
  call partitioned()
  call MPI_Finalize()

contains

  subroutine check(good, what)
    logical, intent(in) :: good
    character(len=*), intent(in) :: what
    if (.not. good) then
      write (*, '(3a,i0)') "wrong: ", what, " at rank ", rank
      error stop 1
    end if
  end subroutine check

  subroutine prepare()
    integer :: i
    a = -5
    a(2, :) = [(rank * 1000 + i, i = 1, n)]
    b = -1
  end subroutine prepare

  subroutine one_sided()
    type(MPI_Win) :: window
    type(c_ptr) :: place
    integer(kind=MPI_ADDRESS_KIND) :: zero
    integer :: i
    zero = 0
    call MPI_Win_allocate(int(8 * n, MPI_ADDRESS_KIND), 8, MPI_INFO_NULL, MPI_COMM_WORLD, place, window)
    call prepare()
    call MPI_Put(a(2, n:1:-1), n, MPI_DOUBLE_PRECISION, right, zero, n, MPI_DOUBLE_PRECISION, window)
    call check(all(memory(1:n) == [(rank * 1000 + i, i = n, 1, -1)]), "MPI_Put")
    call MPI_Put(a(2, 1:n:2), n / 2 - 3, MPI_DOUBLE_PRECISION, right, zero, n / 2 - 3, MPI_DOUBLE_PRECISION, window)
    call check(all(memory(1:n / 2 - 3) == [(rank * 1000 + i, i = 1, n - 6, 2)]), "MPI_Put of a part of a section")
    memory = [(i, i = 1, n)]
    call MPI_Get(b(3, :), n, MPI_DOUBLE_PRECISION, right, zero, n, MPI_DOUBLE_PRECISION, window)
    call check(all(b(3, :) == [(i, i = 1, n)]) .and. all(b(1:2, :) == -1), "MPI_Get")
    call MPI_Get_accumulate(a(2, :), n, MPI_DOUBLE_PRECISION, b(1, n:1:-1), n, MPI_DOUBLE_PRECISION, right, zero, n, &
        MPI_DOUBLE_PRECISION, MPI_REPLACE, window)
    call check(all(b(1, :) == [(i, i = n, 1, -1)]) .and. all(b(2, :) == -1), "MPI_Get_accumulate")
    call check(all(memory == a(2, :)), "what MPI_Get_accumulate takes")
    call MPI_Win_free(window)
  end subroutine one_sided

  subroutine packing()
    character :: packed(3, 8 * n + 100), tight(8 * n + 100)
    integer :: position, i
    integer(kind=MPI_ADDRESS_KIND) :: far, room
    call prepare()
    position = 0
    call MPI_Pack(a(2, :), n, MPI_DOUBLE_PRECISION, packed(2, :), size(packed, 2), position, MPI_COMM_WORLD)
    call check(position == 8 * n, "what is packed")
    call MPI_Sendrecv(packed(2, :), position, MPI_PACKED, right, 1, packed(1, :), position, MPI_PACKED, left, 1, &
        MPI_COMM_WORLD, MPI_STATUS_IGNORE)
    position = 0
    call MPI_Unpack(packed(1, :), 8 * n, position, b(3, n:1:-1), n, MPI_DOUBLE_PRECISION, MPI_COMM_WORLD)
    call check(all(b(3, :) == [(left * 1000 + i, i = n, 1, -1)]) .and. all(b(1:2, :) == -1), "what is unpacked")
    far = 0
    room = size(tight)
    call MPI_Pack_external("external32", a(2, :), n, MPI_DOUBLE_PRECISION, tight, room, far)
    call check(far == 8 * n, "what is packed for others")
    packed(3, :) = tight
    far = 0
    call MPI_Unpack_external("external32", packed(3, :), room, far, b(1, :), n, MPI_DOUBLE_PRECISION)
    call check(all(b(1, :) == a(2, :)), "what is unpacked from others")
  end subroutine packing

  subroutine partitioned()
    integer, parameter :: partitions = 4
    type(MPI_Request) :: requests(2)
    type(MPI_Datatype) :: pair
    integer :: turn, i, kind
    integer :: x(5, 6, 8), y(5, 6, 8), ierror, class
    call MPI_Type_contiguous(2, MPI_DOUBLE_PRECISION, pair)
    call MPI_Type_commit(pair)
    call MPI_Psend_init(a(2, :), partitions, int(n / partitions, MPI_COUNT_KIND), MPI_DOUBLE_PRECISION, right, 1, &
        MPI_COMM_WORLD, MPI_INFO_NULL, requests(1))
    call MPI_Precv_init(b(3, n:1:-1), partitions, int(n / partitions, MPI_COUNT_KIND), MPI_DOUBLE_PRECISION, left, 1, &
        MPI_COMM_WORLD, MPI_INFO_NULL, requests(2))
    do turn = 1, 2
      call prepare()
      a = a + turn
      call MPI_Startall(2, requests)
      do i = partitions - 1, 0, -1
        call MPI_Pready(i, requests(1))
      end do
      call MPI_Waitall(2, requests, MPI_STATUSES_IGNORE)
      call check(all(b(3, :) == [(left * 1000 + i + turn, i = n, 1, -1)]) .and. all(b(1:2, :) == -1), "partitions")
    end do
    call MPI_Request_free(requests(1))
    call MPI_Request_free(requests(2))
    ! Partitions that are two planes each, from which rows and columns are left out.
    x = reshape([(rank * 1000 + i, i = 1, size(x))], shape(x))
    y = -1
    call MPI_Psend_init(x(1:5:2, 2:5, :), partitions, 24_MPI_COUNT_KIND, MPI_INTEGER, right, 1, &
        MPI_COMM_WORLD, MPI_INFO_NULL, requests(1))
    call MPI_Precv_init(y(1:3, 6:3:-1, 8:1:-1), partitions, 24_MPI_COUNT_KIND, MPI_INTEGER, left, 1, &
        MPI_COMM_WORLD, MPI_INFO_NULL, requests(2))
    call MPI_Startall(2, requests)
    do i = 0, partitions - 1
      call MPI_Pready(i, requests(1))
    end do
    call MPI_Waitall(2, requests, MPI_STATUSES_IGNORE)
    call check(all(y(1:3, 6:3:-1, 8:1:-1) == x(1:5:2, 2:5, :) + 1000 * (left - rank)) .and. count(y == -1) == 240 - 96, &
        "partitions of planes")
    call MPI_Request_free(requests(1))
    call MPI_Request_free(requests(2))
    ! What can't be.
    call MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN)
    do kind = 1, 3
      select case (kind)
      case (1)
        call MPI_Psend_init(x(1:5:2, 2:5, :), 3, 10_MPI_COUNT_KIND, MPI_INTEGER, right, 1, &
            MPI_COMM_WORLD, MPI_INFO_NULL, requests(1), ierror)
      case (2)
        call MPI_Psend_init(a(2, :), 4, 5_MPI_COUNT_KIND, pair, right, 1, MPI_COMM_WORLD, MPI_INFO_NULL, requests(1), ierror)
      case (3)
        call MPI_Psend_init(a(2, :), 4, 11_MPI_COUNT_KIND, MPI_DOUBLE_PRECISION, right, 1, &
            MPI_COMM_WORLD, MPI_INFO_NULL, requests(1), ierror)
      end select
      call MPI_Error_class(ierror, class)
      call check(class == merge(MPI_ERR_COUNT, MPI_ERR_BUFFER, kind == 3), "the error of partitions")
    end do
    call MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL)
    call MPI_Type_free(pair)
  end subroutine partitioned
end program sections_elsewhere
