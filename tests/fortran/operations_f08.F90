#include "f08.inc"
#include "operations.inc"
