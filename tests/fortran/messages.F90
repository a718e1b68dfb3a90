! Messages, requests and their statuses: what has another form in Fortran than in C (sections 3.7, 3.8, 3.9, 2.5.4).
#include "interface.h"
program messages
  MPI_MODULE
  implicit none
  MPI_INCLUDE
  integer :: rank, ranks, ierror, right, left

  call MPI_Init(ierror)
  CHECK(ierror == MPI_SUCCESS)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierror)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks, ierror)
  right = mod(rank + 1, ranks)
  left = mod(rank + ranks - 1, ranks)
  call ring()
  call many()
  call some()
  call probes()
  call persistent()
  call bottom()
  call cancelled()
  call buffered()
  if (rank == 0) print '(a, i0, a)', 'messages: ok with ', ranks, ' ranks'
  call MPI_Finalize(ierror)
  CHECK(ierror == MPI_SUCCESS)

contains
#include "check.inc"

  subroutine ring()
    STATUS_OF(status)
    integer :: sent(3), received(4), count
    real :: reals(2)
    sent = [rank, rank + 1, rank + 2]
    received = -1
    call MPI_Sendrecv(sent, 3, MPI_INTEGER, right, 5, received, 4, MPI_INTEGER, left, 5, MPI_COMM_WORLD, status, ierror)
    CHECK(ierror == MPI_SUCCESS)
    CHECK(all(received(1:3) == [left, left + 1, left + 2]))
    CHECK(received(4) == -1)
    CHECK(SOURCE_IN(status) == left)
    CHECK(TAG_IN(status) == 5)
    call MPI_Get_count(status, MPI_INTEGER, count, ierror)
    CHECK(count == 3)
    call MPI_Get_count(status, MPI_2INTEGER, count, ierror)
    CHECK(count == MPI_UNDEFINED)
    call MPI_Get_elements(status, MPI_2INTEGER, count, ierror)
    CHECK(count == 3)
    reals = real(rank)
    call MPI_Sendrecv_replace(reals, 2, MPI_REAL, right, 6, left, 6, MPI_COMM_WORLD, MPI_STATUS_IGNORE, ierror)
    CHECK(all(reals == real(left)))
    call MPI_Recv(received, 4, MPI_INTEGER, MPI_PROC_NULL, 1, MPI_COMM_WORLD, status, ierror)
    CHECK(SOURCE_IN(status) == MPI_PROC_NULL)
    CHECK(TAG_IN(status) == MPI_ANY_TAG)
  end subroutine ring

  subroutine many()
    integer, parameter :: n = 20
    REQUEST :: requests(2 * n)
    STATUSES_OF(statuses, 2 * n)
    STATUS_OF(status)
    integer :: in(n), out(n), i, index, seen(2 * n)
    logical :: flag
    out = [(100 * rank + i, i = 1, n)]
    do i = 1, n
      call MPI_Irecv(in(i), 1, MPI_INTEGER, left, i, MPI_COMM_WORLD, requests(i), ierror)
      call MPI_Isend(out(i), 1, MPI_INTEGER, right, i, MPI_COMM_WORLD, requests(n + i), ierror)
    end do
    call MPI_Waitall(2 * n, requests, statuses, ierror)
    CHECK(ierror == MPI_SUCCESS)
    CHECK(all(in == [(100 * left + i, i = 1, n)]))
    do i = 1, n
      CHECK(requests(i) == MPI_REQUEST_NULL)
#if defined(USE_F08)
      CHECK(statuses(i)%MPI_TAG == i)
#else
      CHECK(statuses(MPI_TAG, i) == i)
#endif
    end do
    ! Each index once, and from 1.
    seen = 0
    do i = 1, n
      call MPI_Irecv(in(i), 1, MPI_INTEGER, left, i, MPI_COMM_WORLD, requests(i), ierror)
    end do
    do i = 1, n
      call MPI_Isend(out(i), 1, MPI_INTEGER, right, i, MPI_COMM_WORLD, requests(n + i), ierror)
    end do
    do i = 1, 2 * n
      if (mod(i, 2) == 0) then
        call MPI_Waitany(2 * n, requests, index, status, ierror)
      else
        flag = .false.
        do while (.not. flag)
          call MPI_Testany(2 * n, requests, index, flag, status, ierror)
        end do
      end if
      CHECK(index >= 1 .and. index <= 2 * n)
      seen(index) = seen(index) + 1
      CHECK(requests(index) == MPI_REQUEST_NULL)
      if (index <= n) then
        CHECK(TAG_IN(status) == index)
      end if
    end do
    CHECK(all(seen == 1))
    call MPI_Waitany(2 * n, requests, index, status, ierror)
    CHECK(index == MPI_UNDEFINED)
    call MPI_Testany(2 * n, requests, index, flag, MPI_STATUS_IGNORE, ierror)
    CHECK(flag .and. index == MPI_UNDEFINED)
    call MPI_Testall(2 * n, requests, flag, MPI_STATUSES_IGNORE, ierror)
    CHECK(flag)
    call MPI_Waitall(0, requests, MPI_STATUSES_IGNORE, ierror)
    CHECK(ierror == MPI_SUCCESS)
  end subroutine many

  subroutine some()
    integer, parameter :: n = 7
    REQUEST :: requests(n)
    STATUSES_OF(statuses, n)
    integer :: in(n), i, done, outcount, indices(n), seen(n)
    seen = 0
    done = 0
    in = -1
    do i = 1, n
      call MPI_Irecv(in(i), 1, MPI_INTEGER, left, 40 + i, MPI_COMM_WORLD, requests(i), ierror)
    end do
    do i = n, 1, -1
      call MPI_Send(i * 11, 1, MPI_INTEGER, right, 40 + i, MPI_COMM_WORLD, ierror)
    end do
    do while (done < n)
      if (mod(done, 2) == 0) then
        call MPI_Waitsome(n, requests, outcount, indices, statuses, ierror)
      else
        call MPI_Testsome(n, requests, outcount, indices, statuses, ierror)
      end if
      CHECK(outcount >= 0)
      do i = 1, outcount
        CHECK(indices(i) >= 1 .and. indices(i) <= n)
        seen(indices(i)) = seen(indices(i)) + 1
#if defined(USE_F08)
        CHECK(statuses(i)%MPI_TAG == 40 + indices(i))
#else
        CHECK(statuses(MPI_TAG, i) == 40 + indices(i))
#endif
      end do
      done = done + outcount
    end do
    CHECK(all(seen == 1))
    CHECK(all(in == [(11 * i, i = 1, n)]))
    call MPI_Waitsome(n, requests, outcount, indices, MPI_STATUSES_IGNORE, ierror)
    CHECK(outcount == MPI_UNDEFINED)
  end subroutine some

  subroutine probes()
    STATUS_OF(status)
    MESSAGE :: message
    logical :: flag
    integer :: value, count
    REQUEST :: request
    value = -1
    call MPI_Isend(rank, 1, MPI_INTEGER, right, 3, MPI_COMM_WORLD, request, ierror)
    call MPI_Probe(left, MPI_ANY_TAG, MPI_COMM_WORLD, status, ierror)
    CHECK(TAG_IN(status) == 3)
    call MPI_Iprobe(left, 4, MPI_COMM_WORLD, flag, MPI_STATUS_IGNORE, ierror)
    CHECK(.not. flag)
    call MPI_Iprobe(left, 3, MPI_COMM_WORLD, flag, status, ierror)
    CHECK(flag)
    call MPI_Mprobe(left, 3, MPI_COMM_WORLD, message, status, ierror)
    call MPI_Get_count(status, MPI_INTEGER, count, ierror)
    CHECK(count == 1)
    call MPI_Mrecv(value, 1, MPI_INTEGER, message, status, ierror)
    CHECK(value == left)
    CHECK(message == MPI_MESSAGE_NULL)
    call MPI_Improbe(left, 3, MPI_COMM_WORLD, flag, message, MPI_STATUS_IGNORE, ierror)
    CHECK(.not. flag)
    call MPI_Wait(request, MPI_STATUS_IGNORE, ierror)
  end subroutine probes

  subroutine persistent()
    REQUEST :: requests(2)
    integer :: value, other, turn
    logical :: flag
    call MPI_Send_init(value, 1, MPI_INTEGER, right, 8, MPI_COMM_WORLD, requests(1), ierror)
    call MPI_Recv_init(other, 1, MPI_INTEGER, left, 8, MPI_COMM_WORLD, requests(2), ierror)
    do turn = 1, 3
      value = rank * turn
      call MPI_F_sync_reg(value)
      other = -1
      call MPI_F_sync_reg(other)
      call MPI_Startall(2, requests, ierror)
      flag = .false.
      do while (.not. flag)
        call MPI_Request_get_status(requests(2), flag, MPI_STATUS_IGNORE, ierror)
      end do
      call MPI_Waitall(2, requests, MPI_STATUSES_IGNORE, ierror)
      ! The compiler may think that nothing has changed it.
      call MPI_F_sync_reg(other)
      CHECK(other == left * turn)
      CHECK(requests(1) /= MPI_REQUEST_NULL)
    end do
    call MPI_Request_free(requests(1), ierror)
    call MPI_Request_free(requests(2), ierror)
    CHECK(requests(2) == MPI_REQUEST_NULL)
  end subroutine persistent

  subroutine bottom()
    integer, target :: one(3)
    double precision, target :: two(2)
    integer(kind=MPI_ADDRESS_KIND) :: addresses(2), address
    DATATYPE :: type, types(2)
    integer :: blocks(2)
    one = rank
    two = dble(rank) / 2
    call MPI_Get_address(one, addresses(1), ierror)
    call MPI_Get_address(two, addresses(2), ierror)
    call MPI_Get_address(MPI_BOTTOM, address, ierror)
    CHECK(address == 0)
    CHECK(MPI_Aint_diff(MPI_Aint_add(addresses(1), 8_MPI_ADDRESS_KIND), addresses(1)) == 8)
    blocks = [3, 2]
    types(1) = MPI_INTEGER
    types(2) = MPI_DOUBLE_PRECISION
    call MPI_Type_create_struct(2, blocks, addresses, types, type, ierror)
    call MPI_Type_commit(type, ierror)
    call MPI_Sendrecv_replace(MPI_BOTTOM, 1, type, right, 2, left, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE, ierror)
    call MPI_F_sync_reg(one)
    call MPI_F_sync_reg(two)
    CHECK(all(one == left) .and. all(two == dble(left) / 2))
    call MPI_Type_free(type, ierror)
    CHECK(type == MPI_DATATYPE_NULL)
  end subroutine bottom

  subroutine cancelled()
    REQUEST :: request
    STATUS_OF(status)
    logical :: flag
    integer :: value
    call MPI_Irecv(value, 1, MPI_INTEGER, left, 99, MPI_COMM_WORLD, request, ierror)
    call MPI_Cancel(request, ierror)
    call MPI_Wait(request, status, ierror)
    call MPI_Test_cancelled(status, flag, ierror)
    CHECK(flag)
    call MPI_Status_set_cancelled(status, .false., ierror)
    call MPI_Test_cancelled(status, flag, ierror)
    CHECK(.not. flag)
    call MPI_Status_set_elements(status, MPI_REAL, 17, ierror)
    call MPI_Get_elements(status, MPI_REAL, value, ierror)
    CHECK(value == 17)
  end subroutine cancelled

  subroutine buffered()
    integer, parameter :: room = 4000
    character, target :: memory(room)
    integer :: value, size
#if defined(USE_F08)
    block
      use, intrinsic :: iso_c_binding, only : c_ptr
      type(c_ptr) :: detached
      integer(kind=MPI_ADDRESS_KIND) :: address
      call MPI_Get_address(memory, address, ierror)
      call MPI_Buffer_attach(memory, room, ierror)
      call MPI_Bsend(rank, 1, MPI_INTEGER, right, 12, MPI_COMM_WORLD, ierror)
      call MPI_Recv(value, 1, MPI_INTEGER, left, 12, MPI_COMM_WORLD, MPI_STATUS_IGNORE, ierror)
      call MPI_Buffer_detach(detached, size, ierror)
      CHECK(transfer(detached, address) == address)
    end block
#else
    call MPI_Buffer_attach(memory, room, ierror)
    call MPI_Bsend(rank, 1, MPI_INTEGER, right, 12, MPI_COMM_WORLD, ierror)
    call MPI_Recv(value, 1, MPI_INTEGER, left, 12, MPI_COMM_WORLD, MPI_STATUS_IGNORE, ierror)
    call MPI_Buffer_detach(memory, size, ierror)
#endif
    CHECK(value == left)
    CHECK(size == room)
    call MPI_Buffer_attach(MPI_BUFFER_AUTOMATIC, 0, ierror)
    call MPI_Bsend(rank, 1, MPI_INTEGER, right, 13, MPI_COMM_WORLD, ierror)
    call MPI_Recv(value, 1, MPI_INTEGER, left, 13, MPI_COMM_WORLD, MPI_STATUS_IGNORE, ierror)
    CHECK(value == left)
  end subroutine buffered
end program messages
