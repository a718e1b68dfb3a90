//! Methods for grids. Each returns the places in the order in which processes, host by host, take them.
//!
//! - `blocks`: where all hosts have the same number of processes, each gets a block that tiles the grid, the one of least surface
//!   (W. Gropp, Using node information to implement MPI Cartesian topologies, EuroMPI 2018)
//! - `planes`: the grid is cut by planes into parts that fit groups of hosts exactly, as small planes as possible, until each host has
//!   a part; and `halves`: it is cut into halves down to single places. (Both after S. Hunold, K. von Kirchbach, M. Lehr, C. Schulz,
//!   J. L. Träff, Efficient process-to-node mapping algorithms for stencil computations, CLUSTER 2020: hyperplane and k-d tree.)
//! - `rows`: the longest dimension is the outermost one

use super::Hosts;
use crate::objects::topology::Grid;

/// A part of a grid: where it begins and how long it is, by dimension.
type Part = Vec<(u32, u32)>;

/// How many neighbours share a host, where each place has this host. In a periodic dimension of two places these are neighbours
/// twice.
pub(super) fn together(grid: &Grid, host_of: &[u32]) -> u64 {
    let mut count = 0;
    let mut stride = 1;
    for (&size, &periodic) in grid.dims().iter().zip(grid.periods()).rev() {
        for place in 0..host_of.len() {
            let coord = place / stride % size as usize;
            let next = match coord + 1 == size as usize {
                false => place + stride,
                true if periodic && size > 1 => place - coord * stride,
                true => continue,
            };
            count += u64::from(host_of[place] == host_of[next]);
        }
        stride *= size as usize;
    }
    count
}

/// What all methods propose.
pub(super) fn proposals(grid: &Grid, hosts: &Hosts) -> Vec<Vec<u32>> {
    let whole: Part = grid.dims().iter().map(|&size| (0, size)).collect();
    let mut cut_by_planes = Vec::with_capacity(grid.size() as usize);
    planes(grid, whole.clone(), hosts, &mut cut_by_planes);
    let mut halved = Vec::with_capacity(grid.size() as usize);
    halves(grid, whole, &mut halved);
    let mut all = vec![cut_by_planes, halved, rows(grid)];
    all.extend(blocks(grid, hosts));
    all
}

/// The place at some coordinates.
fn place(grid: &Grid, coords: impl Iterator<Item = u32>) -> u32 {
    coords
        .zip(grid.dims())
        .fold(0, |place, (coord, size)| place * size + coord)
}

fn volume(part: &Part) -> u64 {
    part.iter().map(|&(_, len)| u64::from(len)).product()
}

/// Both sides of a cut.
fn cut(part: Part, dimension: usize, at: u32) -> [Part; 2] {
    let mut upper = part.clone();
    let mut lower = part;
    let (start, len) = lower[dimension];
    lower[dimension] = (start, at);
    upper[dimension] = (start + at, len - at);
    [lower, upper]
}

/// Cuts the longest dimension into halves, down to single places.
fn halves(grid: &Grid, part: Part, order: &mut Vec<u32>) {
    // Of several longest ones the first.
    let longest = part.iter().enumerate().rev().max_by_key(|(_, (_, len))| *len);
    match longest {
        Some((dimension, &(_, len))) if len > 1 => {
            let [lower, upper] = cut(part, dimension, len.div_ceil(2));
            halves(grid, lower, order);
            halves(grid, upper, order);
        }
        _ => order.push(place(grid, part.iter().map(|&(start, _)| start))),
    }
}

/// Cuts a part for these hosts by planes into parts that fit some of them exactly; where there is no such plane, into halves.
fn planes(grid: &Grid, part: Part, hosts: &Hosts, order: &mut Vec<u32>) {
    let whole = volume(&part);
    // The area and the unevenness of the best cut; its dimension, where it is, and how many hosts are on its lower side.
    let mut best: Option<((u64, u64), usize, u32, usize)> = None;
    for (dimension, &(_, len)) in part.iter().enumerate().filter(|(_, (_, len))| *len > 1) {
        let area = whole / u64::from(len);
        if best.is_some_and(|((least, _), ..)| area > least) {
            continue;
        }
        let mut below = 0;
        for (at, ranks) in hosts.iter().enumerate().take(hosts.len() - 1) {
            below += ranks.len() as u64;
            let rating = (area, below.abs_diff(whole - below));
            if below % area == 0 && best.is_none_or(|(least, ..)| rating < least) {
                best = Some((rating, dimension, (below / area) as u32, at + 1));
            }
        }
    }
    match best {
        Some((_, dimension, at, number)) => {
            let [lower, upper] = cut(part, dimension, at);
            planes(grid, lower, &hosts[..number], order);
            planes(grid, upper, &hosts[number..], order);
        }
        None => halves(grid, part, order),
    }
}

/// Row by row; from row to row of the longest dimension last.
fn rows(grid: &Grid) -> Vec<u32> {
    let dims = grid.dims();
    let mut by_length: Vec<usize> = (0..dims.len()).collect();
    by_length.sort_by_key(|&dimension| std::cmp::Reverse(dims[dimension]));
    let mut coords = vec![0; dims.len()];
    let row = |mut rest: u32| {
        for &dimension in by_length.iter().rev() {
            coords[dimension] = rest % dims[dimension];
            rest /= dims[dimension];
        }
        place(grid, coords.iter().copied())
    };
    (0..grid.size()).map(row).collect()
}

/// The block of least surface, one for each host. `None`: hosts have different numbers of processes, or no block of so many places
/// tiles the grid.
fn blocks(grid: &Grid, hosts: &Hosts) -> Option<Vec<u32>> {
    let number = hosts.first()?.len() as u32;
    if hosts.iter().any(|ranks| ranks.len() as u32 != number) {
        return None;
    }
    let mut search = Search {
        dims: grid.dims(),
        number,
        sides: Vec::new(),
        best: None,
    };
    search.choose(number);
    let (_, sides) = search.best?;
    let tiles = || grid.dims().iter().zip(&sides).map(|(size, side)| size / side);
    let mut order = Vec::with_capacity(grid.size() as usize);
    for tile in 0..tiles().product() {
        let mut rest: u32 = tile;
        let mut block: Part = Vec::new();
        for (tiles, &side) in tiles().zip(&sides).rev() {
            block.push((rest % tiles * side, side));
            rest /= tiles;
        }
        block.reverse();
        halves(grid, block, &mut order);
    }
    Some(order)
}

/// Goes through all blocks of so many places that tile a grid.
struct Search<'a> {
    dims: &'a [u32],
    number: u32,
    /// The sides that are chosen.
    sides: Vec<u32>,
    /// The least surface so far, in places on one side, and the block.
    best: Option<(u32, Vec<u32>)>,
}

impl Search<'_> {
    /// Chooses the other sides, whose product is `rest`.
    fn choose(&mut self, rest: u32) {
        let Some(&size) = self.dims.get(self.sides.len()) else {
            // A side as long as the grid has no neighbours in another block, or it is its own one.
            let cut = self
                .sides
                .iter()
                .zip(self.dims)
                .filter(|(side, size)| side < size);
            let surface = cut.map(|(side, _)| self.number / side).sum();
            if rest == 1 && self.best.as_ref().is_none_or(|(least, _)| surface < *least) {
                self.best = Some((surface, self.sides.clone()));
            }
            return;
        };
        for side in
            (1..=size.min(rest)).filter(|side| size.is_multiple_of(*side) && rest.is_multiple_of(*side))
        {
            self.sides.push(side);
            self.choose(rest / side);
            self.sides.pop();
        }
    }
}
