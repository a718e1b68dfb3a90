! Sends its rank + 1 times 10 integers to the next process, for a profiler to count. Its other calls are not MPI_Send's.
#include "interface.h"
program profiled
  MPI_MODULE
  implicit none
  MPI_INCLUDE
  integer :: rank, ranks, ierror, i, right, left, from(10), to(10)
  integer :: values(10, 100)
  REQUEST :: requests(100)
  call MPI_Init(ierror)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierror)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks, ierror)
  right = mod(rank + 1, ranks)
  left = mod(rank + ranks - 1, ranks)
  from = rank
  do i = 1, left + 1
    call MPI_Irecv(values(1, i), 10, MPI_INTEGER, left, 1, MPI_COMM_WORLD, requests(i), ierror)
  end do
  do i = 1, rank + 1
    call MPI_Send(from, 10, MPI_INTEGER, right, 1, MPI_COMM_WORLD, ierror)
  end do
  call MPI_Waitall(left + 1, requests, MPI_STATUSES_IGNORE, ierror)
  call MPI_Sendrecv(from, 10, MPI_INTEGER, right, 2, to, 10, MPI_INTEGER, left, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE, ierror)
  if (rank == 0) print '(a, i0, a)', 'profiled: ok with ', ranks, ' ranks'
  flush (6)
  call MPI_Finalize(ierror)
end program profiled
