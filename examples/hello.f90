! Each process says who it is. mpifort examples/hello.f90 -o hello && mpiexec -n 4 ./hello
program hello
  use mpi_f08
  implicit none
  integer :: rank, ranks, length
  character(len=MPI_MAX_PROCESSOR_NAME) :: host

  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, rank)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks)
  call MPI_Get_processor_name(host, length)
  print '(a, i0, a, i0, 2a)', 'Hello from rank ', rank, ' of ', ranks, ' on ', host(1:length)
  call MPI_Finalize()
end program hello
