! Array sections that are copied, received by several threads at once: the numbers of completed requests go to the requests of other
! threads, and none may get another's copy. To be compiled with -fopenmp (without, there is one thread). Any number of ranks.
program sections_threads
  use mpi_f08
  !$ use omp_lib
  implicit none

  integer, parameter :: threads = 4, turns = 500, n = 10
  integer :: rank, ranks, left, right, provided, thread, me
  type(MPI_Datatype) :: pair

  call MPI_Init_thread(MPI_THREAD_MULTIPLE, provided)
  if (provided /= MPI_THREAD_MULTIPLE) error stop "no threads"
  call MPI_Comm_rank(MPI_COMM_WORLD, rank)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks)
  right = mod(rank + 1, ranks)
  left = mod(rank - 1 + ranks, ranks)
  call MPI_Type_contiguous(2, MPI_INTEGER, pair)
  call MPI_Type_commit(pair)

  !$omp parallel do num_threads(threads) schedule(static, 1) private(me)
  do thread = 1, threads
    me = thread
    call exchange(me)
  end do
  !$omp end parallel do

  call MPI_Type_free(pair)
  call MPI_Finalize()

contains

  subroutine exchange(tag)
    integer, intent(in) :: tag
    integer, asynchronous :: a(2, n), b(3, n)
    type(MPI_Request) :: requests(2)
    integer :: turn, i, index
    logical :: done
    do turn = 1, turns
      a(1, :) = -2
      a(2, :) = [(1000000 * rank + 1000 * turn + 100 * tag + i, i = 1, n)]
      b = -1
      call MPI_Irecv(b(2, n:1:-1), n / 2, pair, left, tag, MPI_COMM_WORLD, requests(1))
      call MPI_Isend(a(2, :), n / 2, pair, right, tag, MPI_COMM_WORLD, requests(2))
      select case (mod(turn, 3))
      case (0)
        call MPI_Waitall(2, requests, MPI_STATUSES_IGNORE)
      case (1)
        call MPI_Waitany(2, requests, index, MPI_STATUS_IGNORE)
        call MPI_Waitany(2, requests, index, MPI_STATUS_IGNORE)
      case (2)
        done = .false.
        do while (.not. done)
          call MPI_Test(requests(1), done, MPI_STATUS_IGNORE)
        end do
        call MPI_Wait(requests(2), MPI_STATUS_IGNORE)
      end select
      if (any(b(2, :) /= [(1000000 * left + 1000 * turn + 100 * tag + i, i = n, 1, -1)])) error stop "wrong data"
      if (any(b(1:3:2, :) /= -1)) error stop "changed beside a section"
    end do
  end subroutine exchange
end program sections_threads
