#include "mpi.inc"
#include "sessions.inc"
