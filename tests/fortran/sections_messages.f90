! Array sections in all modes of sending and receiving: blocking, not blocking and persistent, small and beyond what is sent at once.
! Any number of ranks: each sends to the next in a ring and receives from the one before.
program sections_messages
  use mpi_f08
  implicit none

  integer :: rank, ranks, left, right, size_index
  integer, parameter :: sizes(4) = [3, 64, 5000, 150000]
  double precision, allocatable, asynchronous, target :: a(:, :), b(:, :)
  character, allocatable, asynchronous :: room(:)
  integer :: n, fits

  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, rank)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks)
  right = mod(rank + 1, ranks)
  left = mod(rank - 1 + ranks, ranks)

  do size_index = 1, size(sizes)
    n = sizes(size_index)
    fits = n * 8
    allocate (a(3, n), b(2, n), room(fits + MPI_BSEND_OVERHEAD + 1000))
    call MPI_Buffer_attach(room, size(room))
    call blocking()
    call not_blocking()
    call persistent()
    call both_ways()
    call matched()
    call cancelled()
    call MPI_Buffer_detach_all()
    deallocate (a, b, room)
  end do
  call MPI_Finalize()

contains

  subroutine check(good, what)
    logical, intent(in) :: good
    character(len=*), intent(in) :: what
    if (.not. good) then
      write (*, '(3a,i0,a,i0)') "wrong: ", what, " at rank ", rank, " with elements ", n
      error stop 1
    end if
  end subroutine check

  subroutine MPI_Buffer_detach_all()
    use, intrinsic :: iso_c_binding, only : c_ptr
    type(c_ptr) :: address
    integer :: bytes
    call MPI_Buffer_detach(address, bytes)
  end subroutine MPI_Buffer_detach_all

  subroutine prepare(turn)
    integer, intent(in) :: turn
    integer :: i
    ! What was sent by way of the attached buffer has left it.
    call MPI_Buffer_flush()
    a = -5
    a(2, :) = [(value(rank, turn, i), i = 1, n)]
    b = -1
  end subroutine prepare

  double precision function value(of_rank, turn, i)
    integer, intent(in) :: of_rank, turn, i
    value = of_rank * 1d7 + turn * 1d6 + i
  end function value

  ! The second row of b has, backwards, what the left neighbour's a has.
  subroutine compare(turn, what)
    integer, intent(in) :: turn
    character(len=*), intent(in) :: what
    integer :: i
    logical :: good
    good = .true.
    do i = 1, n
      good = good .and. b(2, n + 1 - i) == value(left, turn, i) .and. b(1, i) == -1
    end do
    call check(good, what)
  end subroutine compare

  subroutine blocking()
    type(MPI_Request) :: request
    type(MPI_Status) :: status
    integer :: mode, received
    do mode = 1, 4
      call prepare(mode)
      call MPI_Irecv(b(2, n:1:-1), n, MPI_DOUBLE_PRECISION, left, mode, MPI_COMM_WORLD, request)
      select case (mode)
      case (1)
        call MPI_Send(a(2, :), n, MPI_DOUBLE_PRECISION, right, mode, MPI_COMM_WORLD)
      case (2)
        call MPI_Ssend(a(2, :), n, MPI_DOUBLE_PRECISION, right, mode, MPI_COMM_WORLD)
      case (3)
        call MPI_Bsend(a(2, :), n, MPI_DOUBLE_PRECISION, right, mode, MPI_COMM_WORLD)
      case (4)
        call MPI_Barrier(MPI_COMM_WORLD)
        call MPI_Rsend(a(2, :), n, MPI_DOUBLE_PRECISION, right, mode, MPI_COMM_WORLD)
      end select
      call MPI_Wait(request, status)
      call compare(mode, "a blocking send")
      call MPI_Get_count(status, MPI_DOUBLE_PRECISION, received)
      call check(received == n, "the count of a blocking send")
    end do
    ! A blocking receive.
    call prepare(5)
    call MPI_Isend(a(2, :), n, MPI_DOUBLE_PRECISION, right, 5, MPI_COMM_WORLD, request)
    call MPI_Recv(b(2, n:1:-1), n, MPI_DOUBLE_PRECISION, left, 5, MPI_COMM_WORLD, status)
    call MPI_Wait(request, MPI_STATUS_IGNORE)
    call compare(5, "a blocking receive")
    ! Of room for more than comes, only a part is written.
    call prepare(6)
    call MPI_Isend(a(2, :), n - 2, MPI_DOUBLE_PRECISION, right, 5, MPI_COMM_WORLD, request)
    call MPI_Recv(b(2, :), n, MPI_DOUBLE_PRECISION, left, 5, MPI_COMM_WORLD, status)
    call MPI_Wait(request, MPI_STATUS_IGNORE)
    call MPI_Get_count(status, MPI_DOUBLE_PRECISION, received)
    call check(received == n - 2, "the count of a shorter message")
    call check(b(2, n - 2) == value(left, 6, n - 2) .and. all(b(2, n - 1:) == -1), "a shorter message")
  end subroutine blocking

  subroutine not_blocking()
    type(MPI_Request) :: receive, send
    integer :: mode
    logical :: done
    do mode = 1, 4
      call prepare(mode)
      call MPI_Irecv(b(2, n:1:-1), n, MPI_DOUBLE_PRECISION, left, mode, MPI_COMM_WORLD, receive)
      select case (mode)
      case (1)
        call MPI_Isend(a(2, :), n, MPI_DOUBLE_PRECISION, right, mode, MPI_COMM_WORLD, send)
      case (2)
        call MPI_Issend(a(2, :), n, MPI_DOUBLE_PRECISION, right, mode, MPI_COMM_WORLD, send)
      case (3)
        call MPI_Ibsend(a(2, :), n, MPI_DOUBLE_PRECISION, right, mode, MPI_COMM_WORLD, send)
      case (4)
        call MPI_Barrier(MPI_COMM_WORLD)
        call MPI_Irsend(a(2, :), n, MPI_DOUBLE_PRECISION, right, mode, MPI_COMM_WORLD, send)
      end select
      done = .false.
      do while (.not. done)
        call MPI_Test(receive, done, MPI_STATUS_IGNORE)
      end do
      call MPI_Wait(send, MPI_STATUS_IGNORE)
      call compare(mode, "a send that does not block")
    end do
    ! A request that is freed: complete when the message has arrived.
    call prepare(5)
    call MPI_Irecv(b(2, n:1:-1), n, MPI_DOUBLE_PRECISION, left, 5, MPI_COMM_WORLD, receive)
    call MPI_Isend(a(2, :), n, MPI_DOUBLE_PRECISION, right, 5, MPI_COMM_WORLD, send)
    call MPI_Request_free(send)
    call MPI_Wait(receive, MPI_STATUS_IGNORE)
    call compare(5, "a send whose request is freed")
    call MPI_Barrier(MPI_COMM_WORLD)
  end subroutine not_blocking

  subroutine persistent()
    type(MPI_Request) :: requests(2)
    integer :: mode, turn
    do mode = 1, 4
      call MPI_Recv_init(b(2, n:1:-1), n, MPI_DOUBLE_PRECISION, left, mode, MPI_COMM_WORLD, requests(1))
      select case (mode)
      case (1)
        call MPI_Send_init(a(2, :), n, MPI_DOUBLE_PRECISION, right, mode, MPI_COMM_WORLD, requests(2))
      case (2)
        call MPI_Ssend_init(a(2, :), n, MPI_DOUBLE_PRECISION, right, mode, MPI_COMM_WORLD, requests(2))
      case (3)
        call MPI_Bsend_init(a(2, :), n, MPI_DOUBLE_PRECISION, right, mode, MPI_COMM_WORLD, requests(2))
      case (4)
        call MPI_Rsend_init(a(2, :), n, MPI_DOUBLE_PRECISION, right, mode, MPI_COMM_WORLD, requests(2))
      end select
      do turn = 1, 3
        call prepare(turn)
        if (mode == 4) then
          call MPI_Start(requests(1))
          call MPI_Barrier(MPI_COMM_WORLD)
          call MPI_Start(requests(2))
        else
          call MPI_Startall(2, requests)
        end if
        call MPI_Waitall(2, requests, MPI_STATUSES_IGNORE)
        call compare(turn, "a persistent send")
      end do
      call MPI_Request_free(requests(1))
      call MPI_Request_free(requests(2))
    end do
  end subroutine persistent

  subroutine both_ways()
    type(MPI_Request) :: request
    integer :: i
    call prepare(1)
    call MPI_Sendrecv(a(2, :), n, MPI_DOUBLE_PRECISION, right, 1, b(2, n:1:-1), n, MPI_DOUBLE_PRECISION, left, 1, &
        MPI_COMM_WORLD, MPI_STATUS_IGNORE)
    call compare(1, "MPI_Sendrecv")
    call prepare(2)
    call MPI_Isendrecv(a(2, :), n, MPI_DOUBLE_PRECISION, right, 1, b(2, n:1:-1), n, MPI_DOUBLE_PRECISION, left, 1, &
        MPI_COMM_WORLD, request)
    call MPI_Wait(request, MPI_STATUS_IGNORE)
    call compare(2, "MPI_Isendrecv")
    call prepare(3)
    call MPI_Sendrecv_replace(a(2, :), n, MPI_DOUBLE_PRECISION, right, 1, left, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE)
    call check(all(a(2, :) == [(value(left, 3, i), i = 1, n)]) .and. all(a(1:3:2, :) == -5), "MPI_Sendrecv_replace")
    call prepare(4)
    call MPI_Isendrecv_replace(a(2, :), n, MPI_DOUBLE_PRECISION, right, 1, left, 1, MPI_COMM_WORLD, request)
    call MPI_Wait(request, MPI_STATUS_IGNORE)
    call check(all(a(2, :) == [(value(left, 4, i), i = 1, n)]) .and. all(a(1:3:2, :) == -5), "MPI_Isendrecv_replace")
  end subroutine both_ways

  subroutine matched()
    type(MPI_Message) :: message
    type(MPI_Request) :: send, receive
    type(MPI_Status) :: status
    logical :: found
    call prepare(1)
    call MPI_Isend(a(2, :), n, MPI_DOUBLE_PRECISION, right, 1, MPI_COMM_WORLD, send)
    call MPI_Mprobe(left, 1, MPI_COMM_WORLD, message, status)
    call MPI_Mrecv(b(2, n:1:-1), n, MPI_DOUBLE_PRECISION, message, status)
    call MPI_Wait(send, MPI_STATUS_IGNORE)
    call compare(1, "MPI_Mrecv")
    call prepare(2)
    call MPI_Isend(a(2, :), n, MPI_DOUBLE_PRECISION, right, 1, MPI_COMM_WORLD, send)
    found = .false.
    do while (.not. found)
      call MPI_Improbe(left, 1, MPI_COMM_WORLD, found, message, status)
    end do
    call MPI_Imrecv(b(2, n:1:-1), n, MPI_DOUBLE_PRECISION, message, receive)
    call MPI_Wait(receive, MPI_STATUS_IGNORE)
    call MPI_Wait(send, MPI_STATUS_IGNORE)
    call compare(2, "MPI_Imrecv")
  end subroutine matched

  subroutine cancelled()
    type(MPI_Request) :: request
    type(MPI_Status) :: status
    type(MPI_Datatype) :: pair
    logical :: was
    call MPI_Type_contiguous(2, MPI_DOUBLE_PRECISION, pair)
    call MPI_Type_commit(pair)
    call prepare(1)
    call MPI_Irecv(b(2, :), n, MPI_DOUBLE_PRECISION, left, 77, MPI_COMM_WORLD, request)
    call MPI_Cancel(request)
    call MPI_Wait(request, status)
    call MPI_Test_cancelled(status, was)
    call check(was .and. all(b == -1), "a cancelled receive")
    ! One that works on a copy.
    call MPI_Irecv(b(2, :), n / 2, pair, left, 77, MPI_COMM_WORLD, request)
    call MPI_Cancel(request)
    b(2, 1) = 5
    call MPI_Wait(request, status)
    call MPI_Test_cancelled(status, was)
    call check(was .and. b(2, 1) == 5 .and. all(b(:, 2:) == -1) .and. b(1, 1) == -1, "a cancelled receive with a copy")
    call MPI_Type_free(pair)
  end subroutine cancelled
end program sections_messages
