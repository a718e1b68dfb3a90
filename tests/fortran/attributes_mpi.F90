#include "mpi.inc"
#include "attributes.inc"
