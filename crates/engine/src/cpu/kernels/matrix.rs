//! Matrix views: strided rows of a slice. Shapes are checked against the slice once, when a view is created.

use std::ops::Range;

/// Matrix view: element (i, j) is `data[i * row_stride + j * col_stride]`.
#[derive(Debug, Clone, Copy)]
pub struct MatRef<'a> {
    pub(crate) data: &'a [f32],
    pub(crate) rows: usize,
    pub(crate) cols: usize,
    pub(crate) row_stride: usize,
    pub(crate) col_stride: usize,
}

impl<'a> MatRef<'a> {
    /// `rows` rows of `cols` floats, `stride` apart.
    #[inline]
    pub(crate) fn new(data: &'a [f32], rows: usize, cols: usize, stride: usize) -> Self {
        check(data.len(), rows, cols, stride);
        Self { data, rows, cols, row_stride: stride, col_stride: 1 }
    }

    /// Contiguous rows of `cols` floats, filling the slice.
    #[inline]
    pub(crate) fn of_rows(data: &'a [f32], cols: usize) -> Self {
        Self::new(data, data.len() / cols, cols, cols)
    }

    /// The transpose: the same floats, read by columns.
    #[inline]
    #[must_use]
    pub(crate) fn transposed(self) -> Self {
        Self {
            data: self.data,
            rows: self.cols,
            cols: self.rows,
            row_stride: self.col_stride,
            col_stride: self.row_stride,
        }
    }

    /// Some rows.
    #[must_use]
    pub(crate) fn rows(self, range: Range<usize>) -> Self {
        self.part(range, 0..self.cols)
    }

    /// Some columns.
    #[must_use]
    pub(crate) fn columns(self, range: Range<usize>) -> Self {
        self.part(0..self.rows, range)
    }

    fn part(self, rows: Range<usize>, cols: Range<usize>) -> Self {
        assert!(rows.start <= rows.end && rows.end <= self.rows, "rows {rows:?} of {}", self.rows);
        assert!(cols.start <= cols.end && cols.end <= self.cols, "columns {cols:?} of {}", self.cols);
        // An empty part may start past the last float.
        let start = (rows.start * self.row_stride + cols.start * self.col_stride).min(self.data.len());
        Self { data: &self.data[start..], rows: rows.len(), cols: cols.len(), ..self }
    }
}

/// Mutable matrix view: `rows` rows of `cols` floats, `stride` apart.
#[derive(Debug)]
pub struct MatMut<'a> {
    pub(crate) data: &'a mut [f32],
    pub(crate) rows: usize,
    pub(crate) cols: usize,
    pub(crate) stride: usize,
}

impl<'a> MatMut<'a> {
    /// `rows` rows of `cols` floats, `stride` apart; rows must not overlap.
    #[inline]
    pub(crate) fn new(data: &'a mut [f32], rows: usize, cols: usize, stride: usize) -> Self {
        check(data.len(), rows, cols, stride);
        assert!(rows < 2 || stride >= cols, "rows of {cols} floats, {stride} apart, overlap");
        Self { data, rows, cols, stride }
    }

    /// Contiguous rows of `cols` floats, filling the slice.
    #[inline]
    pub(crate) fn of_rows(data: &'a mut [f32], cols: usize) -> Self {
        let rows = data.len() / cols;
        Self::new(data, rows, cols, cols)
    }

    /// Some columns.
    #[must_use]
    pub(crate) fn columns(self, range: Range<usize>) -> Self {
        assert!(range.start <= range.end && range.end <= self.cols, "columns {range:?} of {}", self.cols);
        let start = range.start.min(self.data.len());
        Self { data: &mut self.data[start..], rows: self.rows, cols: range.len(), stride: self.stride }
    }
}

#[inline]
fn check(len: usize, rows: usize, cols: usize, stride: usize) {
    let needed = if rows == 0 || cols == 0 { 0 } else { (rows - 1) * stride + cols };
    assert!(len >= needed, "{rows} x {cols} floats, {stride} apart, do not fit in {len}");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(m: MatRef<'_>, i: usize, j: usize) -> f32 {
        m.data[i * m.row_stride + j * m.col_stride]
    }

    #[test]
    fn parts_and_transposes_read_the_same_floats() {
        let data: Vec<f32> = (0..20).map(|i| i as f32).collect();
        let m = MatRef::new(&data, 4, 3, 5);
        let part = m.rows(1..4).columns(1..3);
        assert_eq!((part.rows, part.cols, at(part, 0, 0), at(part, 2, 1)), (3, 2, 6.0, 17.0));
        let t = part.transposed();
        assert_eq!((t.rows, t.cols, at(t, 1, 2)), (2, 3, at(part, 2, 1)));
        assert_eq!((m.rows(4..4).rows, m.columns(3..3).cols), (0, 0));
        let mut data = data.clone();
        let columns = MatMut::new(&mut data, 4, 3, 5).columns(2..3);
        assert_eq!((columns.rows, columns.cols, columns.data[5]), (4, 1, 7.0));
    }

    #[test]
    #[should_panic(expected = "do not fit")]
    fn a_view_larger_than_its_slice_is_refused() {
        MatRef::new(&[0.0; 13], 3, 4, 5);
    }

    #[test]
    #[should_panic(expected = "overlap")]
    fn overlapping_rows_cannot_be_written() {
        MatMut::new(&mut [0.0; 13], 3, 4, 3);
    }
}
