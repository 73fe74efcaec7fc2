/* openmp.h: libgomp's functions that set and read the number of oneDNN's threads. They are declared
 * here because clang has no omp.h of libgomp. gcc compares the declarations with its own. */
#ifndef LS_CPU_ONEDNN_OPENMP_H
#define LS_CPU_ONEDNN_OPENMP_H

#if !defined(__clang__) && __has_include(<omp.h>)
#include <omp.h>
#endif

extern int omp_get_max_threads(void);
extern void omp_set_num_threads(int);

#endif
