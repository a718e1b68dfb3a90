!     MPI_Abort in a delete callback at MPI_Finalize: the job ends with
!     its code, 37.
#include "interface.h"
#include "checks.inc"
      module callbacks
      MPI_MODULE
      use checks
      implicit none
      MPI_INCLUDE
      integer, parameter :: A = MPI_ADDRESS_KIND
      contains

      subroutine delete(comm, keyval, value, state, ierr)
      COMM :: comm
      integer :: keyval, ierr
      integer(A) :: value, state
      call MPI_Abort(MPI_COMM_WORLD, int(value + state), ierr)
      call check(.false., 'still here')
      end subroutine delete
      end module callbacks

      program aborts
      use checks
      use callbacks
      implicit none
      integer :: key, ierr
      call MPI_Init(ierr)
      call MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, delete, key,    &
     &  30_A, ierr)
      call MPI_Comm_set_attr(MPI_COMM_SELF, key, 7_A, ierr)
      call MPI_Finalize(ierr)
      call check(.false., 'finalized')
      end program aborts
