! Callbacks of data representations, which a profiler in C calls as the library would: for MPI_Register_datarep and for the large form.
#include "checks.inc"
module callbacks
  use mpi_f08
  use, intrinsic :: iso_c_binding
  use checks
  implicit none
  integer, parameter :: A = MPI_ADDRESS_KIND
  integer :: reads = 0, writes = 0, extents = 0
contains

  subroutine read_fn(userbuf, datatype, count, filebuf, position, extra_state, ierror)
    type(c_ptr), value :: userbuf, filebuf
    type(MPI_Datatype) :: datatype
    integer :: count, ierror
    integer(MPI_OFFSET_KIND) :: position
    integer(A) :: extra_state
    integer, pointer :: user(:), file(:)
    call check(datatype == MPI_INTEGER .and. count == 3 .and. position == 2_A ** 40, 'arguments of a read')
    call check(extra_state == 2_A ** 41, 'state of a read')
    call c_f_pointer(userbuf, user, [3])
    call c_f_pointer(filebuf, file, [3])
    user = -file
    reads = reads + 1
    ierror = MPI_SUCCESS
  end subroutine read_fn

  subroutine write_fn(userbuf, datatype, count, filebuf, position, extra_state, ierror)
    type(c_ptr), value :: userbuf, filebuf
    type(MPI_Datatype) :: datatype
    integer :: count, ierror
    integer(MPI_OFFSET_KIND) :: position
    integer(A) :: extra_state
    writes = writes + 1
    ierror = MPI_ERR_CONVERSION
  end subroutine write_fn

  subroutine read_fn_c(userbuf, datatype, count, filebuf, position, extra_state, ierror)
    type(c_ptr), value :: userbuf, filebuf
    type(MPI_Datatype) :: datatype
    integer(MPI_COUNT_KIND) :: count
    integer(MPI_OFFSET_KIND) :: position
    integer(A) :: extra_state
    integer :: ierror
    call check(datatype == MPI_INTEGER .and. count == 2_A ** 33 .and. position == 2_A ** 40, 'arguments of a large read')
    reads = reads + 1
    ierror = MPI_SUCCESS
  end subroutine read_fn_c

  subroutine extent_fn(datatype, extent, extra_state, ierror)
    type(MPI_Datatype) :: datatype
    integer(A) :: extent, extra_state
    integer :: ierror
    extents = extents + 1
    call check(datatype == MPI_INTEGER, 'datatype of an extent')
    extent = extra_state + 8
    ierror = MPI_SUCCESS
  end subroutine extent_fn
end module callbacks

program languages_datareps
  use callbacks
  implicit none
  interface
    ! Calls the read, the write (unless it is null) and the extent function; these are their results.
    subroutine call_them(values, write_is_null, write_error, extent) bind(c)
      import
      integer(c_int) :: values(3), write_is_null, write_error
      integer(c_intptr_t) :: extent
    end subroutine call_them
    subroutine call_them_c(write_is_null, extent) bind(c)
      import
      integer(c_int) :: write_is_null
      integer(c_intptr_t) :: extent
    end subroutine call_them_c
  end interface
  integer(c_int) :: values(3), is_null, error
  integer(c_intptr_t) :: extent
  integer :: ierr
  call MPI_Init()
  call MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN)
  call MPI_Register_datarep('turned   ', read_fn, write_fn, extent_fn, 2_A ** 41, ierr)
  call check(ierr == 0, 'registered')
  values = [1, 2, 3]
  call call_them(values, is_null, error, extent)
  call check(reads == 1 .and. all(values == [-1, -2, -3]), 'read')
  call check(writes == 1 .and. is_null == 0 .and. error == MPI_ERR_CONVERSION, 'write')
  call check(extents == 1 .and. extent == 2_A ** 41 + 8, 'extent')
  call MPI_Register_datarep('turned', read_fn, MPI_CONVERSION_FN_NULL, extent_fn, 2_A ** 41, ierr)
  call call_them(values, is_null, error, extent)
  call check(is_null == 1 .and. writes == 1, 'no conversion')
  call MPI_Register_datarep_c('turned', read_fn_c, MPI_CONVERSION_FN_NULL_C, extent_fn, 5_A, ierr)
  call check(ierr == 0, 'registered, large')
  call call_them_c(is_null, extent)
  call check(reads == 3 .and. is_null == 1 .and. extent == 13, 'large')
  ! The library itself has no data representations of the user's yet, and says so.
  call PMPI_Register_datarep('turned', read_fn, write_fn, extent_fn, 0_A, ierr)
  call check(ierr /= 0, 'not built yet')
  call MPI_Finalize()
end program languages_datareps
