/* What bindgen reads of hwloc. The declarations that are kept are listed in build.rs. */
#include <hwloc.h>

#if HWLOC_API_VERSION < 0x00020100 || HWLOC_API_VERSION >= 0x00030000
#error "hwloc 2.1 or later, below 3, is needed"
#endif
