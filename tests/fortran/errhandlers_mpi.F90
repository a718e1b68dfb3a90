#include "mpi.inc"
#include "errhandlers.inc"
