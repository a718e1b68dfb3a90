#include "f08.inc"
#include "attributes.inc"
