#define USE_MPI use mpi
#define INCLUDE_MPI
#define T_COMM integer
#define T_TYPE integer
#define T_WIN integer
#define T_FILE integer
#define T_SESSION integer
#define T_ERRHANDLER integer
#define T_OP integer
#define T_REQUEST integer
#define T_INFO integer
#include "check.inc"
#include "finalize.inc"
