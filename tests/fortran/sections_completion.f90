! Operations that work on copies of array sections, completed in every way that there is.
! Any number of ranks: each sends to the next in a ring and receives from the one before.
program sections_completion
  use mpi_f08
  implicit none

  integer, parameter :: n = 6, many = 9
  integer :: rank, ranks, left, right
  ! Pairs are no whole number of an element, so sections of these are copied.
  type(MPI_Datatype) :: pair
  integer, asynchronous :: a(2, n, many), b(2, n, many)
  type(MPI_Request) :: sends(many), receives(many)

  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, rank)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks)
  right = mod(rank + 1, ranks)
  left = mod(rank - 1 + ranks, ranks)
  call MPI_Type_contiguous(2, MPI_INTEGER, pair)
  call MPI_Type_commit(pair)

  call one_by_one()
  call all_of_them()
  call any_of_them()
  call some_of_them()
  call asked_about()
  call freed()
  call started_often()
  call failed()

  call MPI_Type_free(pair)
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

  integer function value(of_rank, i, k)
    integer, intent(in) :: of_rank, i, k
    value = 10000 * (of_rank + 1) + 100 * k + i
  end function value

  subroutine prepare()
    integer :: i, k
    do k = 1, many
      do i = 1, n
        a(:, i, k) = value(rank, i, k)
      end do
    end do
    b = -1
  end subroutine prepare

  subroutine begin()
    integer :: k
    call prepare()
    do k = 1, many
      call MPI_Irecv(b(1, :, k), n / 2, pair, left, k, MPI_COMM_WORLD, receives(k))
      ! What is no part of the section may be changed; and what was there before does not come back.
      b(2, :, k) = -3
    end do
    do k = many, 1, -1
      call MPI_Isend(a(2, :, k), n / 2, pair, right, k, MPI_COMM_WORLD, sends(k))
    end do
  end subroutine begin

  subroutine compare(k, what)
    integer, intent(in) :: k
    character(len=*), intent(in) :: what
    integer :: i
    call check(all(b(1, :, k) == [(value(left, i, k), i = 1, n)]), what)
    call check(all(b(2, :, k) == -3), what // " (beside the section)")
  end subroutine compare

  subroutine finish()
    call MPI_Waitall(many, sends, MPI_STATUSES_IGNORE)
  end subroutine finish

  subroutine one_by_one()
    integer :: k
    logical :: done
    type(MPI_Status) :: status
    call begin()
    do k = 1, many, 2
      call MPI_Wait(receives(k), status)
      call compare(k, "MPI_Wait")
      call check(receives(k) == MPI_REQUEST_NULL .and. status%MPI_TAG == k, "the request and status of MPI_Wait")
    end do
    do k = 2, many, 2
      done = .false.
      do while (.not. done)
        call MPI_Test(receives(k), done, status)
      end do
      call compare(k, "MPI_Test")
    end do
    call finish()
  end subroutine one_by_one

  subroutine all_of_them()
    integer :: k, turn
    logical :: done
    do turn = 1, 2
      call begin()
      if (turn == 1) then
        call MPI_Waitall(many, receives, MPI_STATUSES_IGNORE)
      else
        done = .false.
        do while (.not. done)
          call MPI_Testall(many, receives, done, MPI_STATUSES_IGNORE)
        end do
      end if
      do k = 1, many
        call compare(k, "MPI_Waitall or MPI_Testall")
      end do
      call finish()
    end do
  end subroutine all_of_them

  subroutine any_of_them()
    integer :: k, turn, index
    logical :: done, seen(many)
    do turn = 1, 2
      call begin()
      seen = .false.
      do k = 1, many
        done = .false.
        if (turn == 1) then
          call MPI_Waitany(many, receives, index, MPI_STATUS_IGNORE)
        else
          do while (.not. done)
            call MPI_Testany(many, receives, index, done, MPI_STATUS_IGNORE)
          end do
        end if
        call check(.not. seen(index), "an index twice")
        seen(index) = .true.
        call compare(index, "MPI_Waitany or MPI_Testany")
      end do
      call MPI_Waitany(many, receives, index, MPI_STATUS_IGNORE)
      call check(index == MPI_UNDEFINED, "MPI_Waitany without requests")
      call finish()
    end do
  end subroutine any_of_them

  subroutine some_of_them()
    integer :: k, turn, count, indices(many), left_over
    do turn = 1, 2
      call begin()
      left_over = many
      do while (left_over > 0)
        if (turn == 1) then
          call MPI_Waitsome(many, receives, count, indices, MPI_STATUSES_IGNORE)
        else
          call MPI_Testsome(many, receives, count, indices, MPI_STATUSES_IGNORE)
        end if
        do k = 1, count
          call compare(indices(k), "MPI_Waitsome or MPI_Testsome")
        end do
        left_over = left_over - count
      end do
      call MPI_Testsome(many, receives, count, indices, MPI_STATUSES_IGNORE)
      call check(count == MPI_UNDEFINED, "MPI_Testsome without requests")
      call finish()
    end do
  end subroutine some_of_them

  subroutine asked_about()
    integer :: k, turn, index, count, indices(many)
    logical :: done
    do turn = 1, 4
      call begin()
      done = .false.
      do while (.not. done)
        select case (turn)
        case (1)
          call MPI_Request_get_status(receives(1), done, MPI_STATUS_IGNORE)
          index = 1
        case (2)
          call MPI_Request_get_status_any(many, receives, index, done, MPI_STATUS_IGNORE)
        case (3)
          call MPI_Request_get_status_all(many, receives, done, MPI_STATUSES_IGNORE)
          index = many
        case (4)
          call MPI_Request_get_status_some(many, receives, count, indices, MPI_STATUSES_IGNORE)
          done = count > 0
          index = indices(1)
        end select
      end do
      call compare(index, "MPI_Request_get_status and its like")
      call check(receives(index) /= MPI_REQUEST_NULL, "a request that was asked about")
      ! The operation is complete, so this is the program's now.
      b(1, :, index) = 8
      call MPI_Waitall(many, receives, MPI_STATUSES_IGNORE)
      call check(all(b(1, :, index) == 8), "a buffer after MPI_Request_get_status")
      do k = 1, many
        if (k /= index) call compare(k, "MPI_Waitall after MPI_Request_get_status")
      end do
      call finish()
    end do
  end subroutine asked_about

  subroutine freed()
    integer :: k
    call prepare()
    b(2, :, :) = -3
    do k = 1, many
      call MPI_Isend(a(2, :, k), n / 2, pair, right, k, MPI_COMM_WORLD, sends(k))
      call MPI_Request_free(sends(k))
      call check(sends(k) == MPI_REQUEST_NULL, "a request that was freed")
    end do
    do k = 1, many
      call MPI_Recv(b(1, :, k), n / 2, pair, left, k, MPI_COMM_WORLD, MPI_STATUS_IGNORE)
      call compare(k, "a message whose send was freed")
    end do
    call MPI_Barrier(MPI_COMM_WORLD)
  end subroutine freed

  subroutine started_often()
    integer :: k, turn, index, i
    logical :: done
    do k = 1, many
      call MPI_Recv_init(b(1, :, k), n / 2, pair, left, k, MPI_COMM_WORLD, receives(k))
      call MPI_Send_init(a(2, :, k), n / 2, pair, right, k, MPI_COMM_WORLD, sends(k))
    end do
    do turn = 1, 4
      call prepare()
      a = a + turn
      b(2, :, :) = -3
      call MPI_Startall(many, receives)
      do k = 1, many
        call MPI_Start(sends(k))
      end do
      do k = 1, many
        select case (turn)
        case (1)
          call MPI_Wait(receives(k), MPI_STATUS_IGNORE)
          index = k
        case (2)
          call MPI_Waitany(many, receives, index, MPI_STATUS_IGNORE)
        case (3)
          done = .false.
          do while (.not. done)
            call MPI_Test(receives(k), done, MPI_STATUS_IGNORE)
          end do
          index = k
        case (4)
          if (k == 1) call MPI_Waitall(many, receives, MPI_STATUSES_IGNORE)
          index = k
        end select
        call check(all(b(1, :, index) == [(value(left, i, index) + turn, i = 1, n)]), "a persistent receive")
        call check(all(b(2, :, index) == -3), "a persistent receive (beside the section)")
        ! Waiting for one that is not active changes nothing.
        b(1, :, index) = 4
        call MPI_Wait(receives(index), MPI_STATUS_IGNORE)
        call check(all(b(1, :, index) == 4), "the buffer of a request that is not active")
      end do
      call finish()
    end do
    do k = 1, many
      call MPI_Request_free(receives(k))
      call MPI_Request_free(sends(k))
    end do
  end subroutine started_often

  ! Messages that are too long, with an error handler that returns.
  subroutine failed()
    integer :: ierror, class, statuses, k, i
    type(MPI_Status) :: status(many)
    call MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN)
    call prepare()
    do k = 1, many
      call MPI_Irecv(b(1, :, k), merge(1, n / 2, k == 3), pair, left, k, MPI_COMM_WORLD, receives(k))
      b(2, :, k) = -3
    end do
    do k = 1, many
      call MPI_Isend(a(2, :, k), n / 2, pair, right, k, MPI_COMM_WORLD, sends(k))
    end do
    call MPI_Waitall(many, receives, status, ierror)
    call MPI_Error_class(ierror, statuses)
    call MPI_Waitall(many, sends, MPI_STATUSES_IGNORE)
    call check(statuses == MPI_ERR_IN_STATUS, "the error of MPI_Waitall")
    call MPI_Error_class(status(3)%MPI_ERROR, class)
    call check(class == MPI_ERR_TRUNCATE, "the error of one request")
    do k = 1, many
      if (k == 3) cycle
      call MPI_Wait(receives(k), MPI_STATUS_IGNORE)
      call compare(k, "a message beside one that is too long")
    end do
    call check(all(b(1, 3:, 3) == -1), "nothing beyond what a message that is too long may fill")
    call MPI_Recv_init(b(1, :, 1), 1, pair, left, 1, MPI_COMM_WORLD, receives(1))
    call prepare()
    call MPI_Start(receives(1))
    call MPI_Isend(a(2, :, 1), n / 2, pair, right, 1, MPI_COMM_WORLD, sends(1))
    call MPI_Wait(receives(1), MPI_STATUS_IGNORE, ierror)
    call MPI_Error_class(ierror, class)
    call check(class == MPI_ERR_TRUNCATE, "the error of a persistent request")
    call MPI_Wait(sends(1), MPI_STATUS_IGNORE)
    call prepare()
    call MPI_Start(receives(1))
    call MPI_Isend(a(2, :, 1), 1, pair, right, 1, MPI_COMM_WORLD, sends(1))
    call MPI_Wait(receives(1), MPI_STATUS_IGNORE)
    call MPI_Wait(sends(1), MPI_STATUS_IGNORE)
    call check(all(b(1, 1:2, 1) == [(value(left, i, 1), i = 1, 2)]), "a persistent request after an error")
    call MPI_Request_free(receives(1))
    call MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL)
  end subroutine failed
end program sections_completion
