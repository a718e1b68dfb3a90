//! Cartesian topologies (MPI 5.0 section 8.5.1): processes in a grid, ranks in row-major order.

use crate::base::error::Result;
use crate::err;
use crate::objects::group::processes;

/// A grid. Without dimensions it has one place; with a size of 0 it has none, and no process is in it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Grid {
    dims: Vec<u32>,
    periods: Vec<bool>,
}

impl Grid {
    /// Sizes by dimension, and which dimensions are periodic.
    ///
    /// # Errors
    /// `MPI_ERR_DIMS`: a size is negative, or there are more places than ranks can number.
    pub fn new(dims: &[i32], periods: Vec<bool>) -> Result<Grid> {
        assert_eq!(dims.len(), periods.len());
        let size = |(at, &size): (usize, &i32)| {
            u32::try_from(size).map_err(|_| err!(Dims, "dims[{at}] is {size}, but a size is not negative"))
        };
        let dims: Vec<u32> = dims.iter().enumerate().map(size).collect::<Result<_>>()?;
        let mut places = 1u32;
        for (at, size) in dims.iter().enumerate() {
            places = places
                .checked_mul(*size)
                .filter(|places| i32::try_from(*places).is_ok())
                .ok_or_else(|| {
                    err!(
                        Dims,
                        "the grid of dims[0] to dims[{at}] has more places than an int can number"
                    )
                })?;
        }
        Ok(Grid { dims, periods })
    }

    /// The same, if there are so many processes for it.
    ///
    /// # Errors
    /// `MPI_ERR_DIMS`: there are fewer.
    pub fn fitting(self, size: u32) -> Result<Grid> {
        match self.size() <= size {
            true => Ok(self),
            false => Err(err!(
                Dims,
                "the grid of {} has {} places, but the communicator has {}",
                self.words(),
                self.size(),
                processes(size)
            )),
        }
    }

    /// "4 × 3 places", for messages.
    fn words(&self) -> String {
        let sizes: Vec<String> = self.dims.iter().map(u32::to_string).collect();
        format!("dims {}", sizes.join(" × "))
    }

    /// Sizes by dimension.
    pub fn dims(&self) -> &[u32] {
        &self.dims
    }

    /// Which dimensions are periodic.
    pub fn periods(&self) -> &[bool] {
        &self.periods
    }

    /// How many places it has.
    pub fn size(&self) -> u32 {
        self.dims.iter().product()
    }

    /// The coordinates of a rank.
    pub fn coords(&self, rank: u32) -> Vec<u32> {
        let mut rest = rank;
        let mut coords = vec![0; self.dims.len()];
        for (coord, size) in coords.iter_mut().zip(&self.dims).rev() {
            *coord = rest % size;
            rest /= size;
        }
        coords
    }

    /// The rank at some coordinates. In a periodic dimension they are taken modulo the size.
    ///
    /// # Errors
    /// `MPI_ERR_ARG`: one is outside the grid.
    pub fn rank_at(&self, coords: &[i32]) -> Result<u32> {
        let mut rank = 0;
        for (at, &coord) in coords.iter().enumerate() {
            let place = self.wrap(at, coord.into()).ok_or_else(|| {
                err!(
                    Arg,
                    "coords[{at}] is {coord}, outside 0 to {} of a dimension that is not periodic",
                    self.dims[at] - 1
                )
            })?;
            rank = rank * self.dims[at] + place;
        }
        Ok(rank)
    }

    /// A coordinate within its dimension; `None`: it is outside.
    fn wrap(&self, dimension: usize, coord: i64) -> Option<u32> {
        let size = i64::from(self.dims[dimension]);
        match self.periods[dimension] {
            true => Some(coord.rem_euclid(size) as u32),
            false => (0..size).contains(&coord).then_some(coord as u32),
        }
    }

    /// The rank this far along a dimension; `None`: nobody.
    pub fn shifted(&self, rank: u32, dimension: usize, by: i64) -> Option<u32> {
        let stride: u32 = self.dims[dimension + 1..].iter().product();
        let coord = rank / stride % self.dims[dimension];
        let to = self.wrap(dimension, i64::from(coord) + by)?;
        Some(rank - coord * stride + to * stride)
    }

    /// The neighbours of a rank: dimension by dimension, the negative direction first.
    pub fn neighbours(&self, rank: u32) -> Vec<Option<u32>> {
        (0..self.dims.len())
            .flat_map(|dimension| [-1, 1].map(|by| self.shifted(rank, dimension, by)))
            .collect()
    }

    /// The grid of some dimensions.
    pub fn part(&self, remain: &[bool]) -> Grid {
        let kept = (0..self.dims.len()).filter(|&at| remain[at]);
        Grid {
            dims: kept.clone().map(|at| self.dims[at]).collect(),
            periods: kept.map(|at| self.periods[at]).collect(),
        }
    }

    /// The grid of the places between the least and the greatest coordinates of some places, which are ascending. `None`: these are not all of
    /// them, or there are none.
    pub fn spanned_by(&self, places: &[u32]) -> Option<Grid> {
        let mut ends: Vec<(u32, u32)> = self.dims.iter().map(|&size| (size, 0)).collect();
        for &place in places {
            for ((least, most), coord) in ends.iter_mut().zip(self.coords(place)) {
                (*least, *most) = ((*least).min(coord), (*most).max(coord));
            }
        }
        places.first()?;
        let dims: Vec<u32> = ends.iter().map(|(least, most)| most - least + 1).collect();
        let periods = self.periods.iter().zip(dims.iter().zip(&self.dims));
        let grid = Grid {
            periods: periods
                .map(|(&periodic, (part, whole))| periodic && part == whole)
                .collect(),
            dims,
        };
        (grid.size() as usize == places.len()).then_some(grid)
    }

    /// The ranks that differ from a rank in these dimensions only, as they are in [`Grid::part`].
    pub fn ranks_of_part(&self, rank: u32, remain: &[bool]) -> Vec<u32> {
        let part = self.part(remain);
        let mut coords = self.coords(rank);
        let rank_at = |place| {
            let kept = coords.iter_mut().zip(remain).filter(|(_, kept)| **kept);
            kept.zip(part.coords(place))
                .for_each(|((coord, _), new)| *coord = new);
            let sizes = coords.iter().zip(&self.dims);
            sizes.fold(0, |rank, (coord, size)| rank * size + coord)
        };
        (0..part.size()).map(rank_at).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::error::Class;

    fn grid(dims: &[i32], periods: &[bool]) -> Grid {
        Grid::new(dims, periods.to_vec()).expect("a grid")
    }

    #[test]
    fn ranks_are_in_row_major_order() {
        let grid = grid(&[2, 3, 4], &[false, true, false]);
        assert_eq!(grid.size(), 24);
        for rank in 0..24 {
            let coords: Vec<i32> = grid.coords(rank).iter().map(|&coord| coord as i32).collect();
            assert_eq!(coords[0] * 12 + coords[1] * 4 + coords[2], rank as i32);
            assert_eq!(grid.rank_at(&coords), Ok(rank));
        }
    }

    #[test]
    fn periodic_coordinates_wrap_and_others_end() {
        let grid = grid(&[3, 4], &[true, false]);
        assert_eq!(grid.rank_at(&[-1, 2]), Ok(10));
        assert_eq!(
            grid.rank_at(&[i32::MIN, 0]),
            Ok(i32::MIN.rem_euclid(3) as u32 * 4)
        );
        for coord in [-1, 4, i32::MAX] {
            let error = grid.rank_at(&[0, coord]).expect_err("outside");
            assert_eq!(error.class, Class::Arg);
            assert!(
                error.message.contains(&format!("coords[1] is {coord}")),
                "{error}"
            );
        }
        assert_eq!(grid.shifted(1, 0, -1), Some(9));
        assert_eq!(grid.shifted(1, 0, 4), Some(5));
        assert_eq!(grid.shifted(1, 1, 2), Some(3));
        assert_eq!(grid.shifted(1, 1, 3), None);
        assert_eq!(grid.shifted(1, 1, i64::from(i32::MIN)), None);
        assert_eq!(grid.neighbours(3), [Some(11), Some(7), Some(2), None]);
    }

    #[test]
    fn parts_keep_the_order() {
        let grid = grid(&[2, 3, 4], &[false, true, false]);
        let remain = [true, false, true];
        assert_eq!(grid.part(&remain).dims(), [2, 4]);
        assert_eq!(grid.part(&remain).periods(), [false, false]);
        // Rank 23 is at (1, 2, 3).
        assert_eq!(grid.ranks_of_part(23, &remain), [8, 9, 10, 11, 20, 21, 22, 23]);
        assert_eq!(grid.ranks_of_part(23, &[false, true, false]), [15, 19, 23]);
        assert_eq!(grid.ranks_of_part(23, &[false; 3]), [23]);
        assert_eq!(grid.part(&[false; 3]).size(), 1);
    }

    #[test]
    fn some_places_may_be_a_grid() {
        let grid = grid(&[2, 3, 4], &[true, true, false]);
        let spanned = |places: &[u32]| grid.spanned_by(places).map(|part| (part.dims, part.periods));
        assert_eq!(
            spanned(&[1, 2, 5, 6, 13, 14, 17, 18]),
            Some((vec![2, 2, 2], vec![true, false, false]))
        );
        assert_eq!(spanned(&[23]), Some((vec![1, 1, 1], vec![false; 3])));
        assert_eq!(spanned(&[1, 2, 5]), None);
        assert_eq!(spanned(&[0, 3]), None);
        assert_eq!(spanned(&[]), None);
        let all: Vec<u32> = (0..24).collect();
        assert_eq!(grid.spanned_by(&all), Some(grid.clone()));
    }

    #[test]
    fn a_grid_needs_sizes_and_processes() {
        for (dims, word) in [
            (&[2, -1][..], "dims[1] is -1"),
            (&[-3], "dims[0] is -3"),
            (&[65536, 65536], "dims[0] to dims[1]"),
        ] {
            let error = Grid::new(dims, vec![false; dims.len()]).expect_err("no grid");
            assert_eq!(error.class, Class::Dims);
            assert!(error.message.contains(word), "{error}");
        }
        let error = grid(&[2, 2], &[false; 2]).fitting(3).expect_err("too large");
        assert_eq!(error.class, Class::Dims);
        assert!(grid(&[2, 2], &[false; 2]).fitting(4).is_ok());
        assert_eq!(grid(&[], &[]).size(), 1);
        assert_eq!(grid(&[0, 3], &[false, true]).size(), 0);
    }
}
