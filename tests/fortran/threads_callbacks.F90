! Attributes, error handlers and operations of Fortran's in several threads at once.
#include "checks.inc"
module thread_side
  use mpi
  use checks
  use, intrinsic :: iso_c_binding, only : c_int
  implicit none
  integer, parameter :: A = MPI_ADDRESS_KIND
  integer, parameter :: ROUNDS = 500, HIGHEST = 1000
  ! Attributes that one thread sets and deletes, and others read.
  integer :: shared_comm, shared_key
contains

  subroutine copy(comm, keyval, state, old, new, flag, ierr)
    integer :: comm, keyval, ierr
    integer(A) :: state, old, new
    logical :: flag
    new = old + state
    flag = .true.
    ierr = MPI_SUCCESS
  end subroutine copy

  subroutine delete(comm, keyval, value, state, ierr)
    integer :: comm, keyval, ierr
    integer(A) :: value, state
    ierr = MPI_SUCCESS
    if (abs(value) > 2 * HIGHEST) ierr = MPI_ERR_OTHER
  end subroutine delete

  subroutine on_error(comm, code)
    integer :: comm, code
  end subroutine on_error

  subroutine add(invec, inoutvec, len, datatype)
    integer :: len, datatype, invec(len), inoutvec(len)
    inoutvec = invec + inoutvec
  end subroutine add

  subroutine work(number) bind(c)
    integer(c_int), value :: number
    integer :: ierr, i, key, comm, op, handler, in(1), inout(1)
    integer(A) :: value
    logical :: flag
    do i = 1, ROUNDS
      if (number == 0) then
        call MPI_Comm_set_attr(shared_comm, shared_key, int(i, A), ierr)
        call check(ierr == 0, 'set the shared one')
        if (mod(i, 3) == 0) call MPI_Comm_delete_attr(shared_comm, shared_key, ierr)
      else
        call MPI_Comm_get_attr(shared_comm, shared_key, value, flag, ierr)
        call check(ierr == 0, 'get the shared one')
        ! The value of some time, never the address of where it was.
        if (flag) call check(value > 0 .and. value <= HIGHEST, 'its value')
      end if
      call MPI_Comm_create_keyval(copy, delete, key, int(number, A), ierr)
      call MPI_Comm_set_attr(MPI_COMM_SELF, key, int(i, A), ierr)
      if (mod(i, 10) == 0) then
        call MPI_Comm_create_errhandler(on_error, handler, ierr)
        call MPI_Errhandler_free(handler, ierr)
        call MPI_Op_create(add, .true., op, ierr)
        in = i
        inout = number
        call MPI_Reduce_local(in, inout, 1, MPI_INTEGER, op, ierr)
        call check(inout(1) == i + number, 'an operation')
        call MPI_Op_free(op, ierr)
      end if
      call MPI_Comm_get_attr(MPI_COMM_SELF, key, value, flag, ierr)
      call check(flag .and. value == i, 'a value of this thread')
      call MPI_Comm_delete_attr(MPI_COMM_SELF, key, ierr)
      call check(ierr == 0, 'deleted')
      call MPI_Comm_free_keyval(key, ierr)
    end do
  end subroutine work
end module thread_side

program threads_callbacks
  use thread_side
  implicit none
  interface
    ! Calls `work` in so many threads at once.
    subroutine in_threads(threads) bind(c)
      import
      integer(c_int), value :: threads
    end subroutine in_threads
  end interface
  integer :: ierr, provided
  call MPI_Init_thread(MPI_THREAD_MULTIPLE, provided, ierr)
  call check(provided == MPI_THREAD_MULTIPLE, 'threads')
  call MPI_Comm_dup(MPI_COMM_SELF, shared_comm, ierr)
  call MPI_Comm_create_keyval(copy, delete, shared_key, 0_A, ierr)
  call in_threads(4)
  call MPI_Comm_free(shared_comm, ierr)
  call check(ierr == 0, 'the shared one goes')
  call MPI_Finalize(ierr)
end program threads_callbacks
