! Ends the job by MPI_Abort with the code that the argument says, from the last process, while the others wait (section 11.4).
#include "interface.h"
program abort_with
  MPI_MODULE
  implicit none
  MPI_INCLUDE
  integer :: rank, ranks, ierror, code
  character(len=20) :: argument
  call get_command_argument(1, argument)
  read (argument, *) code
  call MPI_Init(ierror)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierror)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks, ierror)
  if (rank == ranks - 1) then
    print '(a)', 'written before the end'
    ! A compiler's own buffers are not MPI_Abort's to write.
    flush (6)
    call MPI_Abort(MPI_COMM_WORLD, code, ierror)
    print '(a)', 'MPI_Abort has returned'
  end if
  call MPI_Barrier(MPI_COMM_WORLD, ierror)
  call MPI_Finalize(ierror)
end program abort_with
