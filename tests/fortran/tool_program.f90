! A program for tool_f08.f90, which counts its calls. It does the same without the tool. Any number of ranks.
program tool_program
  use mpi_f08
  implicit none

  type :: pair
    integer :: number
    character(len=3) :: text
    double precision :: other
  end type pair

  integer :: rank, ranks, left, right, i, one
  integer, asynchronous :: a(10, 10), b(10, 10), c(40)
  type(pair), asynchronous :: pairs(10), others(10)
  type(MPI_Request) :: requests(2)
  character :: packed(80)
  integer(kind=MPI_ADDRESS_KIND) :: position

  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, rank)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks)
  right = mod(rank + 1, ranks)
  left = mod(rank - 1 + ranks, ranks)

  ! A whole array, to every other row.
  a = reshape([(1000 * rank + i, i = 1, 100)], [10, 10])
  b = -1
  call MPI_Irecv(b(10:1:-2, 1:8), 40, MPI_INTEGER, left, 1, MPI_COMM_WORLD, requests(1))
  call MPI_Isend(a(1:5, 3:10), 40, MPI_INTEGER, right, 1, MPI_COMM_WORLD, requests(2))
  call MPI_Waitall(2, requests, MPI_STATUSES_IGNORE)
  call check(all(b(10:1:-2, 1:8) == a(1:5, 3:10) + 1000 * (left - rank)) .and. count(b == -1) == 60, "a block")

  ! Contiguous ones.
  call MPI_Irecv(c, 40, MPI_INTEGER, left, 1, MPI_COMM_WORLD, requests(1))
  call MPI_Isend(a(:, 1:4), 40, MPI_INTEGER, right, 1, MPI_COMM_WORLD, requests(2))
  call MPI_Waitall(2, requests, MPI_STATUSES_IGNORE)
  call check(all(c == [(1000 * left + i, i = 1, 40)]), "columns")

  ! Components: the distances are no multiples of an element's size.
  do i = 1, 10
    pairs(i)%number = 1000 * rank + i
    write (pairs(i)%text, '(i3)') 10 * rank + i
    others(i)%text = " "
    others(i)%number = 0
  end do
  call MPI_Irecv(others(10:1:-1)%number, 10, MPI_INTEGER, left, 1, MPI_COMM_WORLD, requests(1))
  call MPI_Isend(pairs%number, 10, MPI_INTEGER, right, 1, MPI_COMM_WORLD, requests(2))
  call MPI_Waitall(2, requests, MPI_STATUSES_IGNORE)
  call check(all(others(10:1:-1)%number == [(1000 * left + i, i = 1, 10)]), "components")
  call MPI_Irecv(others%text, 30, MPI_CHARACTER, left, 1, MPI_COMM_WORLD, requests(1))
  call MPI_Isend(pairs%text, 30, MPI_CHARACTER, right, 1, MPI_COMM_WORLD, requests(2))
  call MPI_Waitall(2, requests, MPI_STATUSES_IGNORE)
  do i = 1, 10
    read (others(i)%text, *) one
    call check(one == 10 * left + i, "texts")
  end do

  ! A scalar.
  call MPI_Irecv(one, 1, MPI_INTEGER, left, 1, MPI_COMM_WORLD, requests(1))
  call MPI_Isend(rank, 1, MPI_INTEGER, right, 1, MPI_COMM_WORLD, requests(2))
  call MPI_Waitall(2, requests, MPI_STATUSES_IGNORE)
  call check(one == left, "a scalar")

  ! Blocking.
  call MPI_Recv_init(b(3, :), 10, MPI_INTEGER, left, 2, MPI_COMM_WORLD, requests(1))
  call MPI_Start(requests(1))
  call MPI_Send(a(2, :), 10, MPI_INTEGER, right, 2, MPI_COMM_WORLD)
  call MPI_Wait(requests(1), MPI_STATUS_IGNORE)
  call check(all(b(3, :) == [(1000 * left + 10 * i + 2, i = 0, 9)]), "a row")
  call MPI_Start(requests(1))
  call MPI_Send(a(:, 10:1:-1), 10_MPI_COUNT_KIND, MPI_INTEGER, right, 2, MPI_COMM_WORLD)
  call MPI_Wait(requests(1), MPI_STATUS_IGNORE)
  call check(all(b(3, :) == [(1000 * left + 90 + i, i = 1, 10)]), "a large count")
  call MPI_Request_free(requests(1))
  call MPI_Send(MPI_BOTTOM, 0, MPI_INTEGER, MPI_PROC_NULL, 2, MPI_COMM_WORLD)
  call MPI_Send(c(5), 10, MPI_INTEGER, MPI_PROC_NULL, 2, MPI_COMM_WORLD)
  call pass_on(a)

  ! From the first rank to all.
  if (rank == 0) b(4, :) = 77
  call MPI_Bcast(b(4, :), 10, MPI_INTEGER, 0, MPI_COMM_WORLD)
  call check(all(b(4, :) == 77), "a row for all")
  if (rank == 0) c(1:10) = 78
  call MPI_Bcast(c, 10, MPI_INTEGER, 0, MPI_COMM_WORLD)
  call check(all(c(1:10) == 78), "an array for all")
  if (rank == 0) b(10:1:-3, 2) = 79
  call MPI_Bcast(b(10:1:-3, 2), 4, MPI_INTEGER, 0, MPI_COMM_WORLD)
  call check(all(b(10:1:-3, 2) == 79), "a part of a column for all")

  position = 0
  call MPI_Pack_external("external32 ", a(2, :), 10, MPI_INTEGER, packed, int(size(packed), MPI_ADDRESS_KIND), position)
  call check(position == 40, "what is packed")

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

  ! An array whose size is not known.
  subroutine pass_on(x)
    integer :: x(5, *)
    call MPI_Send(x, 10, MPI_INTEGER, MPI_PROC_NULL, 2, MPI_COMM_WORLD)
  end subroutine pass_on
end program tool_program
