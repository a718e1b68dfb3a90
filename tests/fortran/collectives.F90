! Collective operations: each once, with the arrays that Fortran has in other forms than C (chapter 6).
#include "interface.h"
program collectives
  MPI_MODULE
  implicit none
  MPI_INCLUDE
  integer :: rank, ranks, ierror, i

  call MPI_Init(ierror)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierror)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks, ierror)
  call equal_blocks()
  call uneven_blocks()
  call types()
  call reductions()
  call nonblocking()
  call persistent()
  call neighbours()
  if (rank == 0) print '(a, i0, a)', 'collectives: ok with ', ranks, ' ranks'
  call MPI_Finalize(ierror)

contains
#include "check.inc"

  subroutine equal_blocks()
    integer :: value, all_of_them(ranks), turned(ranks)
    value = merge(42, -1, rank == ranks - 1)
    call MPI_Bcast(value, 1, MPI_INTEGER, ranks - 1, MPI_COMM_WORLD, ierror)
    CHECK(value == 42)
    call MPI_Allgather(rank * 3, 1, MPI_INTEGER, all_of_them, 1, MPI_INTEGER, MPI_COMM_WORLD, ierror)
    CHECK(all(all_of_them == [(3 * i, i = 0, ranks - 1)]))
    all_of_them(rank + 1) = rank * 5
    call MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, all_of_them, 1, MPI_INTEGER, MPI_COMM_WORLD, ierror)
    CHECK(all(all_of_them == [(5 * i, i = 0, ranks - 1)]))
    all_of_them = [(100 * rank + i, i = 0, ranks - 1)]
    call MPI_Alltoall(all_of_them, 1, MPI_INTEGER, turned, 1, MPI_INTEGER, MPI_COMM_WORLD, ierror)
    CHECK(all(turned == [(100 * i + rank, i = 0, ranks - 1)]))
    all_of_them = -1
    if (rank == 0) then
      all_of_them = [(i * i, i = 0, ranks - 1)]
      call MPI_Scatter(all_of_them, 1, MPI_INTEGER, MPI_IN_PLACE, 1, MPI_INTEGER, 0, MPI_COMM_WORLD, ierror)
      value = 0
    else
      call MPI_Scatter(all_of_them, 1, MPI_INTEGER, value, 1, MPI_INTEGER, 0, MPI_COMM_WORLD, ierror)
    end if
    CHECK(value == rank * rank)
    call MPI_Gather(value, 1, MPI_INTEGER, turned, 1, MPI_INTEGER, 0, MPI_COMM_WORLD, ierror)
    if (rank == 0) then
      CHECK(all(turned == [(i * i, i = 0, ranks - 1)]))
    end if
    call MPI_Barrier(MPI_COMM_WORLD, ierror)
    CHECK(ierror == MPI_SUCCESS)
  end subroutine equal_blocks

  subroutine uneven_blocks()
    integer :: counts(ranks), displs(ranks), mine(rank + 1)
    integer, allocatable :: received(:)
    counts = [(i, i = 1, ranks)]
    displs = [((i * (i + 1)) / 2, i = 0, ranks - 1)]
    allocate (received((ranks * (ranks + 1)) / 2))
    mine = rank
    call MPI_Allgatherv(mine, rank + 1, MPI_INTEGER, received, counts, displs, MPI_INTEGER, MPI_COMM_WORLD, ierror)
    do i = 1, ranks
      CHECK(all(received(displs(i) + 1:displs(i) + counts(i)) == i - 1))
    end do
  end subroutine uneven_blocks

  subroutine types()
    ! A type for each process.
    DATATYPE :: sent(ranks), received(ranks)
    integer :: counts(ranks), displs(ranks)
    double precision :: from(ranks), to(ranks)
    sent = MPI_DOUBLE_PRECISION
    received = MPI_DOUBLE_PRECISION
    counts = 1
    displs = [(8 * i, i = 0, ranks - 1)]
    from = [(rank + 0.25d0 * i, i = 0, ranks - 1)]
    call MPI_Alltoallw(from, counts, displs, sent, to, counts, displs, received, MPI_COMM_WORLD, ierror)
    CHECK(all(to == [(i + 0.25d0 * rank, i = 0, ranks - 1)]))
  end subroutine types

  subroutine reductions()
    real :: one(2), sum(2)
    complex :: z, total
    logical :: truth
    integer :: pairs(2), best(2), part
    one = [real(rank), 1.0]
    call MPI_Allreduce(one, sum, 2, MPI_REAL, MPI_SUM, MPI_COMM_WORLD, ierror)
    CHECK(sum(1) == real(ranks * (ranks - 1) / 2) .and. sum(2) == real(ranks))
    call MPI_Reduce(one, sum, 2, MPI_REAL, MPI_MAX, 0, MPI_COMM_WORLD, ierror)
    if (rank == 0) then
      CHECK(sum(1) == real(ranks - 1))
    end if
    z = (0.0, 1.0)
    call MPI_Allreduce(z, total, 1, MPI_COMPLEX, MPI_PROD, MPI_COMM_WORLD, ierror)
    CHECK(abs(total - z**ranks) < 1e-5)
    call MPI_Allreduce(rank >= 0, truth, 1, MPI_LOGICAL, MPI_LAND, MPI_COMM_WORLD, ierror)
    CHECK(truth .eqv. .true.)
    call MPI_Allreduce(rank == 0, truth, 1, MPI_LOGICAL, MPI_LAND, MPI_COMM_WORLD, ierror)
    CHECK(truth .eqv. ranks == 1)
    pairs = [-rank, rank]
    call MPI_Allreduce(pairs, best, 1, MPI_2INTEGER, MPI_MAXLOC, MPI_COMM_WORLD, ierror)
    CHECK(best(1) == 0 .and. best(2) == 0)
    call MPI_Scan(1, part, 1, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, ierror)
    CHECK(part == rank + 1)
    call MPI_Reduce_scatter_block([(rank, i = 1, ranks)], part, 1, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, ierror)
    CHECK(part == ranks * (ranks - 1) / 2)
  end subroutine reductions

  subroutine nonblocking()
    REQUEST :: requests(3)
    integer :: value, total, counts(ranks), displs(ranks), all_of_them(ranks)
    value = merge(7, 0, rank == 0)
    counts = 1
    displs = [(i, i = ranks - 1, 0, -1)]
    call MPI_Ibcast(value, 1, MPI_INTEGER, 0, MPI_COMM_WORLD, requests(1), ierror)
    call MPI_Iallreduce(rank + 1, total, 1, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, requests(2), ierror)
    call MPI_Iallgatherv(rank, 1, MPI_INTEGER, all_of_them, counts, displs, MPI_INTEGER, MPI_COMM_WORLD, requests(3), ierror)
    call MPI_Waitall(3, requests, MPI_STATUSES_IGNORE, ierror)
    call MPI_F_sync_reg(value)
    call MPI_F_sync_reg(total)
    call MPI_F_sync_reg(all_of_them)
    CHECK(value == 7)
    CHECK(total == ranks * (ranks + 1) / 2)
    CHECK(all(all_of_them == [(i, i = ranks - 1, 0, -1)]))
  end subroutine nonblocking

  subroutine persistent()
    REQUEST :: request
    integer :: value, total, turn
    call MPI_Allreduce_init(value, total, 1, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, MPI_INFO_NULL, request, ierror)
    do turn = 1, 3
      value = turn
      call MPI_F_sync_reg(value)
      call MPI_Start(request, ierror)
      call MPI_Wait(request, MPI_STATUS_IGNORE, ierror)
      call MPI_F_sync_reg(total)
      CHECK(total == turn * ranks)
    end do
    call MPI_Request_free(request, ierror)
  end subroutine persistent

  subroutine neighbours()
    COMM :: ring
    DATATYPE :: type_of(2)
    integer :: counts(2), from(2), to(2)
    integer(kind=MPI_ADDRESS_KIND) :: displs(2)
    call MPI_Cart_create(MPI_COMM_WORLD, 1, [ranks], [.true.], .false., ring, ierror)
    type_of = MPI_INTEGER
    counts = 1
    displs = [0, 4]
    from = [rank, -rank]
    call MPI_Neighbor_alltoallw(from, counts, displs, type_of, to, counts, displs, type_of, ring, ierror)
    CHECK(to(1) == merge(-1, 1, ranks > 2) * mod(rank + ranks - 1, ranks) .or. ranks <= 2)
    CHECK(ierror == MPI_SUCCESS)
    call MPI_Comm_free(ring, ierror)
  end subroutine neighbours
end program collectives
