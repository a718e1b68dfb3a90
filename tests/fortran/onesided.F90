! One-sided communication: each procedure of chapter 12 once, its arguments as Fortran has them: displacements and sizes of
! MPI_ADDRESS_KIND, counts of MPI_COUNT_KIND with mpi_f08, C pointers and addresses for memory, and operations on Fortran's types.
#include "interface.h"
program onesided
#if !defined(USE_MPIF)
  use, intrinsic :: iso_c_binding, only: c_ptr, c_f_pointer
#endif
  MPI_MODULE
  implicit none
  MPI_INCLUDE
  integer, parameter :: aint = MPI_ADDRESS_KIND, many = 10
  integer(kind=aint), parameter :: nowhere = 0
  integer, target, asynchronous :: memory(many)
  integer :: rank, ranks, ierror, right, left, unit
  WINDOW :: win

  call MPI_Init(ierror)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierror)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks, ierror)
  right = modulo(rank + 1, ranks)
  left = modulo(rank - 1, ranks)
  call MPI_Sizeof_integer(unit)
  call fences()
  call groups()
  call locks()
  call requests()
  call large_counts()
  call allocated()
  call shared()
  call dynamic()
  call types()
  call errors()
  if (rank == 0) print '(a, i0, a)', 'onesided: ok with ', ranks, ' ranks'
  call MPI_Finalize(ierror)

contains
#include "check.inc"

  subroutine MPI_Sizeof_integer(bytes)
    integer, intent(out) :: bytes
    call MPI_Type_size(MPI_INTEGER, bytes, ierror)
  end subroutine MPI_Sizeof_integer

  subroutine open_window()
    memory = 0
    call MPI_Win_create(memory, int(many * unit, aint), unit, MPI_INFO_NULL, MPI_COMM_WORLD, win, ierror)
    CHECK(ierror == MPI_SUCCESS)
  end subroutine open_window

  subroutine close_window()
    call MPI_Win_free(win, ierror)
    CHECK(win == MPI_WIN_NULL)
  end subroutine close_window

  ! The compiler is told that the memory may have changed.
  subroutine look()
    if (.not. MPI_ASYNC_PROTECTS_NONBLOCKING) call MPI_F_sync_reg(memory)
  end subroutine look

  subroutine fences()
    integer, asynchronous :: value(2), got(2)
    call open_window()
    call MPI_Win_fence(MPI_MODE_NOPRECEDE, win, ierror)
    value = [10 * rank, 10 * rank + 1]
    call MPI_Put(value, 2, MPI_INTEGER, right, 3_aint, 2, MPI_INTEGER, win, ierror)
    CHECK(ierror == MPI_SUCCESS)
    call MPI_Win_fence(0, win, ierror)
    call look()
    CHECK(memory(4) == 10 * left .and. memory(5) == 10 * left + 1 .and. memory(3) == 0 .and. memory(6) == 0)
    got = -1
    call MPI_Get(got, 2, MPI_INTEGER, right, 3_aint, 2, MPI_INTEGER, win, ierror)
    call MPI_Accumulate(value, 1, MPI_INTEGER, MPI_PROC_NULL, nowhere, 1, MPI_INTEGER, MPI_SUM, win, ierror)
    call MPI_Win_fence(MPI_MODE_NOSTORE, win, ierror)
    call MPI_F_sync_reg(got)
    CHECK(all(got == value))
    value = 1
    call MPI_Accumulate(value, 1, MPI_INTEGER, 0, nowhere, 1, MPI_INTEGER, MPI_SUM, win, ierror)
    call MPI_Win_fence(MPI_MODE_NOSUCCEED, win, ierror)
    call look()
    CHECK(memory(1) == merge(ranks, 0, rank == 0))
    call close_window()
  end subroutine fences

  subroutine groups()
    GROUP :: world, to, from
    logical :: flag
    integer, asynchronous :: value
    call open_window()
    call MPI_Comm_group(MPI_COMM_WORLD, world, ierror)
    call MPI_Group_incl(world, 1, [right], to, ierror)
    call MPI_Group_incl(world, 1, [left], from, ierror)
    call MPI_Win_post(from, 0, win, ierror)
    call MPI_Win_start(to, 0, win, ierror)
    value = 7 + rank
    call MPI_Put(value, 1, MPI_INTEGER, right, 1_aint, 1, MPI_INTEGER, win, ierror)
    call MPI_Win_complete(win, ierror)
    call MPI_Win_wait(win, ierror)
    call look()
    CHECK(memory(2) == 7 + left)
    call MPI_Win_post(from, MPI_MODE_NOPUT, win, ierror)
    call MPI_Win_start(to, 0, win, ierror)
    call MPI_Win_complete(win, ierror)
    flag = .false.
    do while (.not. flag)
      call MPI_Win_test(win, flag, ierror)
    end do
    call MPI_Group_free(to, ierror)
    call MPI_Group_free(from, ierror)
    call MPI_Group_free(world, ierror)
    call close_window()
  end subroutine groups

  subroutine locks()
    integer, asynchronous :: value, got, compare
    call open_window()
    value = 5 + rank
    call MPI_Win_lock(MPI_LOCK_EXCLUSIVE, right, 0, win, ierror)
    CHECK(ierror == MPI_SUCCESS)
    call MPI_Put(value, 1, MPI_INTEGER, right, 2_aint, 1, MPI_INTEGER, win, ierror)
    call MPI_Win_flush(right, win, ierror)
    call MPI_Get(got, 1, MPI_INTEGER, right, 2_aint, 1, MPI_INTEGER, win, ierror)
    call MPI_Win_flush_local(right, win, ierror)
    call MPI_F_sync_reg(got)
    CHECK(got == 5 + rank)
    call MPI_Win_unlock(right, win, ierror)
    call MPI_Barrier(MPI_COMM_WORLD, ierror)
    call MPI_Win_lock_all(MPI_MODE_NOCHECK, win, ierror)
    value = 100
    call MPI_Get_accumulate(value, 1, MPI_INTEGER, got, 1, MPI_INTEGER, right, 2_aint, 1, MPI_INTEGER, MPI_SUM, win, ierror)
    call MPI_Win_flush_all(win, ierror)
    call MPI_F_sync_reg(got)
    CHECK(got == 5 + rank)
    call MPI_Fetch_and_op(value, got, MPI_INTEGER, right, 2_aint, MPI_REPLACE, win, ierror)
    call MPI_Win_flush_local_all(win, ierror)
    call MPI_F_sync_reg(got)
    CHECK(got == 105 + rank)
    compare = 100
    value = 3
    call MPI_Compare_and_swap(value, compare, got, MPI_INTEGER, right, 2_aint, win, ierror)
    call MPI_Win_flush(right, win, ierror)
    call MPI_F_sync_reg(got)
    CHECK(got == 100)
    call MPI_Win_sync(win, ierror)
    call MPI_Barrier(MPI_COMM_WORLD, ierror)
    call MPI_Win_sync(win, ierror)
    call look()
    CHECK(memory(3) == 3)
    call MPI_Win_unlock_all(win, ierror)
    call close_window()
  end subroutine locks

  subroutine requests()
    integer, asynchronous :: value(3), got, before
    REQUEST :: request(2)
    call open_window()
    call MPI_Win_lock(MPI_LOCK_SHARED, right, 0, win, ierror)
    value = [1, 20, 300]
    call MPI_Rput(value, 1, MPI_INTEGER, right, 4_aint, 1, MPI_INTEGER, win, request(1), ierror)
    call MPI_Wait(request(1), MPI_STATUS_IGNORE, ierror)
    call MPI_Win_flush(right, win, ierror)
    call MPI_Raccumulate(value(2), 1, MPI_INTEGER, right, 4_aint, 1, MPI_INTEGER, MPI_SUM, win, request(1), ierror)
    call MPI_Rget_accumulate(value(3), 1, MPI_INTEGER, before, 1, MPI_INTEGER, right, 4_aint, 1, MPI_INTEGER, MPI_SUM, win, &
      request(2), ierror)
    call MPI_Waitall(2, request, MPI_STATUSES_IGNORE, ierror)
    call MPI_F_sync_reg(before)
    CHECK(before == 21)
    call MPI_Win_flush(right, win, ierror)
    call MPI_Rget(got, 1, MPI_INTEGER, right, 4_aint, 1, MPI_INTEGER, win, request(1), ierror)
    call MPI_Wait(request(1), MPI_STATUS_IGNORE, ierror)
    call MPI_F_sync_reg(got)
    CHECK(got == 321)
    call MPI_Win_unlock(right, win, ierror)
    call close_window()
  end subroutine requests

  ! With mpi_f08 the kind of the counts chooses; with the others the twins have names of their own.
  subroutine large_counts()
#if defined(USE_F08)
    integer(kind=MPI_COUNT_KIND), parameter :: two = 2
    integer, asynchronous :: value(2), got(2)
    type(MPI_Request) :: request
    memory = 0
    call MPI_Win_create(memory, int(many * unit, aint), int(unit, aint), MPI_INFO_NULL, MPI_COMM_WORLD, win, ierror)
    call MPI_Win_lock_all(0, win)
    value = [rank, rank + 50]
    call MPI_Put(value, two, MPI_INTEGER, right, 0_aint, two, MPI_INTEGER, win, ierror)
    call MPI_Win_flush(right, win)
    call MPI_Accumulate(value, two, MPI_INTEGER, right, 0_aint, two, MPI_INTEGER, MPI_SUM, win)
    call MPI_Get_accumulate(value, two, MPI_INTEGER, got, two, MPI_INTEGER, right, 0_aint, two, MPI_INTEGER, MPI_SUM, win)
    call MPI_Win_flush(right, win)
    CHECK(all(got == 2 * value))
    call MPI_Rput(value, two, MPI_INTEGER, right, 4_aint, two, MPI_INTEGER, win, request)
    call MPI_Wait(request, MPI_STATUS_IGNORE)
    call MPI_Raccumulate(value, two, MPI_INTEGER, right, 0_aint, two, MPI_INTEGER, MPI_SUM, win, request)
    call MPI_Wait(request, MPI_STATUS_IGNORE)
    call MPI_Rget_accumulate(value, two, MPI_INTEGER, got, two, MPI_INTEGER, right, 0_aint, two, MPI_INTEGER, MPI_NO_OP, win, &
      request)
    call MPI_Wait(request, MPI_STATUS_IGNORE)
    CHECK(all(got == 4 * value))
    call MPI_Win_flush(right, win)
    call MPI_Rget(got, two, MPI_INTEGER, right, 4_aint, two, MPI_INTEGER, win, request)
    call MPI_Wait(request, MPI_STATUS_IGNORE)
    CHECK(all(got == value))
    call MPI_Get(got, two, MPI_INTEGER, right, 0_aint, two, MPI_INTEGER, win)
    call MPI_Win_unlock_all(win)
    CHECK(all(got == 4 * value))
    call close_window()
#endif
  end subroutine large_counts

  ! A C pointer, or an address, is what comes back.
  subroutine allocated()
    integer, asynchronous :: value
    integer(kind=aint) :: size
    logical :: flag
#if defined(USE_MPIF)
    integer(kind=aint) :: base
    call MPI_Win_allocate(int(4 * unit, aint), unit, MPI_INFO_NULL, MPI_COMM_WORLD, base, win, ierror)
    CHECK(ierror == MPI_SUCCESS .and. base /= 0)
#else
    type(c_ptr) :: base
    integer, pointer :: mine(:)
    call MPI_Win_allocate(int(4 * unit, aint), unit, MPI_INFO_NULL, MPI_COMM_WORLD, base, win, ierror)
    CHECK(ierror == MPI_SUCCESS)
    call c_f_pointer(base, mine, [4])
    mine = -1
#endif
    call MPI_Win_get_attr(win, MPI_WIN_SIZE, size, flag, ierror)
    CHECK(flag .and. size == 4 * unit)
    call MPI_Win_fence(0, win, ierror)
    value = rank
    call MPI_Put(value, 1, MPI_INTEGER, right, 2_aint, 1, MPI_INTEGER, win, ierror)
    call MPI_Win_fence(0, win, ierror)
    value = -5
    call MPI_Get(value, 1, MPI_INTEGER, rank, 2_aint, 1, MPI_INTEGER, win, ierror)
    call MPI_Win_fence(MPI_MODE_NOSUCCEED, win, ierror)
    call MPI_F_sync_reg(value)
    CHECK(value == left)
#if !defined(USE_MPIF)
    CHECK(mine(3) == left .and. mine(1) == -1)
#endif
    call close_window()
  end subroutine allocated

  subroutine shared()
    COMM :: node
    integer :: node_rank, node_ranks, disp_unit
    integer(kind=aint) :: size
#if defined(USE_MPIF)
    integer(kind=aint) :: base, theirs
#else
    type(c_ptr) :: base, theirs
    integer, pointer :: seen(:)
#endif
    integer, asynchronous :: value
    call MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, node, ierror)
    call MPI_Comm_rank(node, node_rank, ierror)
    call MPI_Comm_size(node, node_ranks, ierror)
    call MPI_Win_allocate_shared(int(2 * unit, aint), unit, MPI_INFO_NULL, node, base, win, ierror)
    CHECK(ierror == MPI_SUCCESS)
    call MPI_Win_shared_query(win, modulo(node_rank + 1, node_ranks), size, disp_unit, theirs, ierror)
    CHECK(size == 2 * unit .and. disp_unit == unit)
    call MPI_Win_fence(0, win, ierror)
    value = 40 + node_rank
    call MPI_Put(value, 1, MPI_INTEGER, modulo(node_rank + 1, node_ranks), 1_aint, 1, MPI_INTEGER, win, ierror)
    call MPI_Win_fence(MPI_MODE_NOSUCCEED, win, ierror)
#if !defined(USE_MPIF)
    call c_f_pointer(theirs, seen, [2])
    CHECK(seen(2) == 40 + node_rank)
#endif
    call close_window()
    call MPI_Comm_free(node, ierror)
  end subroutine shared

  subroutine dynamic()
    integer(kind=aint) :: mine, theirs
    integer, asynchronous :: value
    memory = 0
    call MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, win, ierror)
    call MPI_Win_attach(win, memory, int(many * unit, aint), ierror)
    CHECK(ierror == MPI_SUCCESS)
    call MPI_Get_address(memory, mine, ierror)
    call MPI_Sendrecv(mine, 1, MPI_AINT, left, 1, theirs, 1, MPI_AINT, right, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE, ierror)
    theirs = MPI_Aint_add(theirs, int(3 * unit, aint))
    call MPI_Win_lock(MPI_LOCK_SHARED, right, 0, win, ierror)
    value = 60 + rank
    call MPI_Put(value, 1, MPI_INTEGER, right, theirs, 1, MPI_INTEGER, win, ierror)
    call MPI_Win_unlock(right, win, ierror)
    CHECK(ierror == MPI_SUCCESS)
    call MPI_Barrier(MPI_COMM_WORLD, ierror)
    call MPI_Win_lock(MPI_LOCK_SHARED, rank, 0, win, ierror)
    call look()
    CHECK(memory(4) == 60 + left)
    call MPI_Win_unlock(rank, win, ierror)
    call MPI_Win_detach(win, memory, ierror)
    CHECK(ierror == MPI_SUCCESS)
    call close_window()
  end subroutine dynamic

  ! Operations on Fortran's own types, and a type of every second element.
  subroutine types()
    double precision, asynchronous :: numbers(6), ones(3)
    logical, asynchronous :: truth, truths
    complex, asynchronous :: number, numbers_sum
    DATATYPE :: second
    numbers = 0
    call MPI_Type_vector(3, 1, 2, MPI_DOUBLE_PRECISION, second, ierror)
    call MPI_Type_commit(second, ierror)
    call MPI_Win_create(numbers, 48_aint, 8, MPI_INFO_NULL, MPI_COMM_WORLD, win, ierror)
    call MPI_Win_fence(0, win, ierror)
    ones = [1d0, 2d0, 4d0]
    call MPI_Accumulate(ones, 3, MPI_DOUBLE_PRECISION, 0, 1_aint, 1, second, MPI_SUM, win, ierror)
    CHECK(ierror == MPI_SUCCESS)
    call MPI_Win_fence(MPI_MODE_NOSUCCEED, win, ierror)
    call MPI_F_sync_reg(numbers)
    if (rank == 0) then
      CHECK(all(numbers == [0d0, 1d0 * ranks, 0d0, 2d0 * ranks, 0d0, 4d0 * ranks]))
    end if
    call MPI_Type_free(second, ierror)
    call close_window()
    truths = .false.
    call MPI_Win_create(truths, int(unit, aint), 1, MPI_INFO_NULL, MPI_COMM_WORLD, win, ierror)
    call MPI_Win_fence(0, win, ierror)
    truth = rank == ranks - 1
    call MPI_Accumulate(truth, 1, MPI_LOGICAL, 0, nowhere, 1, MPI_LOGICAL, MPI_LOR, win, ierror)
    call MPI_Win_fence(MPI_MODE_NOSUCCEED, win, ierror)
    call MPI_F_sync_reg(truths)
    CHECK(truths .eqv. rank == 0)
    call close_window()
    numbers_sum = (0.0, 0.0)
    call MPI_Win_create(numbers_sum, 8_aint, 1, MPI_INFO_NULL, MPI_COMM_WORLD, win, ierror)
    call MPI_Win_fence(0, win, ierror)
    number = (1.0, -1.0)
    call MPI_Accumulate(number, 1, MPI_COMPLEX, 0, nowhere, 1, MPI_COMPLEX, MPI_SUM, win, ierror)
    call MPI_Win_fence(MPI_MODE_NOSUCCEED, win, ierror)
    call MPI_F_sync_reg(numbers_sum)
    if (rank == 0) then
      CHECK(numbers_sum == cmplx(ranks, -ranks))
    end if
    call close_window()
  end subroutine types

  subroutine errors()
    integer :: class, code
    integer, asynchronous :: value
    call open_window()
    call MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN, ierror)
    value = 1
    call MPI_Put(value, 1, MPI_INTEGER, right, nowhere, 1, MPI_INTEGER, win, ierror)
    call MPI_Error_class(ierror, class, code)
    CHECK(class == MPI_ERR_RMA_SYNC)
    call MPI_Win_lock(MPI_LOCK_SHARED, ranks, 0, win, ierror)
    call MPI_Error_class(ierror, class, code)
    CHECK(class == MPI_ERR_RANK)
    call MPI_Win_unlock(right, win, ierror)
    call MPI_Error_class(ierror, class, code)
    CHECK(class == MPI_ERR_RMA_SYNC)
    call close_window()
  end subroutine errors
end program onesided
