! More error handlers and operations than a process can have: a clear error at the first too many, and the others keep working.
#include "checks.inc"
module callbacks
  use mpi
  use checks
  implicit none
  integer :: last = 0
  interface
    ! Procedure `which` of those that C has, which have Fortran's arguments: it sets `last` to its number.
    subroutine create_errhandler(which, errhandler, ierr) bind(c)
      use, intrinsic :: iso_c_binding, only : c_int
      integer(c_int), value :: which
      integer(c_int) :: errhandler, ierr
    end subroutine create_errhandler
    subroutine create_op(which, op, ierr) bind(c)
      use, intrinsic :: iso_c_binding, only : c_int
      integer(c_int), value :: which
      integer(c_int) :: op, ierr
    end subroutine create_op
    integer(c_int) function last_called() bind(c)
      use, intrinsic :: iso_c_binding, only : c_int
    end function last_called
  end interface
end module callbacks

program callbacks_many
  use callbacks
  implicit none
  integer, parameter :: PLACES = 256
  integer :: handlers(PLACES), ops(PLACES), extra, i, ierr, class, length, in(1), inout(1)
  character(len=MPI_MAX_ERROR_STRING) :: text
  call MPI_Init(ierr)
  call MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN, ierr)
  do i = 1, PLACES
    call create_errhandler(i - 1, handlers(i), ierr)
    call check(ierr == 0, 'an error handler')
    call create_op(i - 1, ops(i), ierr)
    call check(ierr == 0, 'an operation')
  end do
  extra = -5
  call create_errhandler(PLACES, extra, ierr)
  call MPI_Error_class(ierr, class, i)
  call check(class == MPI_ERR_NO_MEM .and. extra == -5, 'one error handler too many')
  call MPI_Error_string(ierr, text, length, i)
  call check(index(text, 'MPI_Comm_create_errhandler') > 0 .and. index(text, '256') > 0, 'its text')
  call create_op(PLACES, extra, ierr)
  call MPI_Error_class(ierr, class, i)
  call check(class == MPI_ERR_NO_MEM .and. extra == -5, 'one operation too many')
  call MPI_Error_string(ierr, text, length, i)
  call check(index(text, 'MPI_Op_create') > 0, 'its text')
  ! Each calls its own procedure.
  do i = 1, PLACES
    call MPI_Comm_set_errhandler(MPI_COMM_WORLD, handlers(i), ierr)
    call MPI_Comm_call_errhandler(MPI_COMM_WORLD, MPI_ERR_TAG, ierr)
    call check(last_called() == i - 1, 'the right error handler')
    in = 1
    inout = 2
    call MPI_Reduce_local(in, inout, 1, MPI_INTEGER, ops(i), ierr)
    call check(last_called() == 1000 + i - 1, 'the right operation')
    call MPI_Errhandler_free(handlers(i), ierr)
    call MPI_Op_free(ops(i), ierr)
  end do
  ! A known procedure has its place still.
  call create_errhandler(100, extra, ierr)
  call check(ierr == 0, 'a known one')
  call MPI_Finalize(ierr)
end program callbacks_many
