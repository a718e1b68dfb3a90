! For programs that are compiled once for each of the three interfaces: with USE_F08, USE_MPI_MODULE or USE_MPIF defined. A scoping unit
! begins with MPI_MODULE and has MPI_INCLUDE after its `implicit none`.
#if defined(USE_F08)
#define MPI_MODULE use mpi_f08
#define MPI_INCLUDE
#define COMM type(MPI_Comm)
#define DATATYPE type(MPI_Datatype)
#define ERRHANDLER type(MPI_Errhandler)
#define FILE_HANDLE type(MPI_File)
#define GROUP type(MPI_Group)
#define INFO type(MPI_Info)
#define MESSAGE type(MPI_Message)
#define OP type(MPI_Op)
#define REQUEST type(MPI_Request)
#define SESSION type(MPI_Session)
#define WINDOW type(MPI_Win)
#define STATUS_OF(name) type(MPI_Status) :: name
#define STATUSES_OF(name, number) type(MPI_Status) :: name(number)
#define SOURCE_IN(status) status%MPI_SOURCE
#define TAG_IN(status) status%MPI_TAG
#define ERROR_IN(status) status%MPI_ERROR
#define NUMBER_OF(handle) handle%MPI_VAL
#else
#if defined(USE_MPI_MODULE)
#define MPI_MODULE use mpi
#define MPI_INCLUDE
#else
#define MPI_MODULE
#define MPI_INCLUDE include 'mpif.h'
#endif
#define COMM integer
#define DATATYPE integer
#define ERRHANDLER integer
#define FILE_HANDLE integer
#define GROUP integer
#define INFO integer
#define MESSAGE integer
#define OP integer
#define REQUEST integer
#define SESSION integer
#define WINDOW integer
#define STATUS_OF(name) integer :: name(MPI_STATUS_SIZE)
#define STATUSES_OF(name, number) integer :: name(MPI_STATUS_SIZE, number)
#define SOURCE_IN(status) status(MPI_SOURCE)
#define TAG_IN(status) status(MPI_TAG)
#define ERROR_IN(status) status(MPI_ERROR)
#define NUMBER_OF(handle) handle
#endif
#define CHECK(condition) call check(condition, __LINE__)
