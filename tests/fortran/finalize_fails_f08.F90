#define FAILS
#define F08
#define USE_MPI use mpi_f08
#define INCLUDE_MPI
#define T_COMM type(MPI_Comm)
#define T_TYPE type(MPI_Datatype)
#define T_WIN type(MPI_Win)
#define T_FILE type(MPI_File)
#define T_SESSION type(MPI_Session)
#define T_ERRHANDLER type(MPI_Errhandler)
#define T_OP type(MPI_Op)
#define T_REQUEST type(MPI_Request)
#define T_INFO type(MPI_Info)
#include "check.inc"
#include "finalize.inc"
