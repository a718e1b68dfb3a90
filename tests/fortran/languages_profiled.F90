! A profiler in C sees each call of a Fortran program once, and C's own constants for predefined callbacks.
#include "checks.inc"
module fortran_side
  use mpi_f08
  use checks
  implicit none
  integer, parameter :: A = MPI_ADDRESS_KIND
contains
  subroutine on_error(comm, code)
    type(MPI_Comm) :: comm
    integer :: code
  end subroutine on_error

  subroutine larger(invec, inoutvec, len, datatype)
    use, intrinsic :: iso_c_binding, only : c_ptr
    type(c_ptr), value :: invec, inoutvec
    integer :: len
    type(MPI_Datatype) :: datatype
  end subroutine larger
end module fortran_side

program languages_profiled
  use fortran_side
  use, intrinsic :: iso_c_binding
  implicit none
  interface
    ! How many calls the profiler saw since it was asked last.
    integer(c_int) function calls() bind(c)
      import
    end function calls
    ! Whether the last copy function was C's constant for none.
    integer(c_int) function no_copy() bind(c)
      import
    end function no_copy
    ! Whether the last copy function, for datatypes, copies a pointer of C's as it is.
    integer(c_int) function copies_pointer() bind(c)
      import
    end function copies_pointer
  end interface
  integer :: key, ierr
  integer(A) :: value
  logical :: flag
  type(MPI_Errhandler) :: handler
  type(MPI_Op) :: op
  external :: mpi_errhandler_create, mpi_address
  integer :: number, here
  call MPI_Init()
  call check(calls() == 0, 'nothing yet')
  call MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, MPI_COMM_NULL_DELETE_FN, key, 1_A)
  call check(calls() == 1 .and. no_copy() == 1, 'a key without copies')
  call MPI_Comm_set_attr(MPI_COMM_SELF, key, 5_A)
  call check(calls() == 1, 'set')
  call MPI_Comm_get_attr(MPI_COMM_SELF, key, value, flag)
  call check(calls() == 1 .and. flag .and. value == 5, 'get')
  call MPI_Comm_delete_attr(MPI_COMM_SELF, key)
  call MPI_Comm_free_keyval(key)
  call MPI_Comm_create_keyval(MPI_COMM_DUP_FN, MPI_COMM_NULL_DELETE_FN, key, 1_A)
  call check(calls() == 1 .and. no_copy() == 0, 'a key with copies')
  call MPI_Comm_free_keyval(key)
  call MPI_Type_create_keyval(MPI_TYPE_NULL_COPY_FN, MPI_TYPE_NULL_DELETE_FN, key, 1_A)
  call check(calls() == 1 .and. no_copy() == 1, 'a key of datatypes without copies')
  call MPI_Type_free_keyval(key)
  call MPI_Type_create_keyval(MPI_TYPE_DUP_FN, MPI_TYPE_NULL_DELETE_FN, key, 1_A)
  call check(calls() == 1 .and. no_copy() == 0, 'a key of datatypes with copies')
  call check(copies_pointer() == 1, 'which copy C''s pointer as it is')
  call MPI_Type_free_keyval(key)
  call MPI_Win_create_keyval(MPI_WIN_NULL_COPY_FN, MPI_WIN_NULL_DELETE_FN, key, 1_A)
  call check(calls() == 1 .and. no_copy() == 1, 'a key of windows without copies')
  call MPI_Win_free_keyval(key)
  call MPI_Win_create_keyval(MPI_WIN_DUP_FN, MPI_WIN_NULL_DELETE_FN, key, 1_A)
  call check(calls() == 1 .and. no_copy() == 0, 'a key of windows with copies')
  call MPI_Win_free_keyval(key)
  call mpi_keyval_create(MPI_NULL_COPY_FN, MPI_NULL_DELETE_FN, key, 1, ierr)
  call check(calls() == 1 .and. no_copy() == 1, 'a deprecated key without copies')
  call MPI_Comm_free_keyval(key)
  call MPI_Comm_create_errhandler(on_error, handler)
  call check(calls() == 1, 'an error handler')
  call MPI_Errhandler_free(handler)
  call MPI_Op_create(larger, .true., op)
  call check(calls() == 1, 'an operation')
  call MPI_Op_free(op)
  call mpi_errhandler_create(on_error, number, ierr)
  call check(calls() == 1, 'an error handler of MPI-1')
  call PMPI_Op_create(larger, .true., op)
  call check(calls() == 0, 'a profiler''s own call')
  call MPI_Op_free(op)
  call MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN)
  call mpi_address(key, here, ierr)
  call check(calls() == 1, 'an address, and perhaps its error')
  call MPI_Finalize()
end program languages_profiled
