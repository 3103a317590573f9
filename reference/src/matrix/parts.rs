//! Rows and columns of a matrix in their stored form, with the scales of their blocks.

use std::ops::Range;

use super::{Matrix, Scales};

impl Matrix<'_> {
    /// Some of its rows. Of a quantized one, those of the first block may lie above them in part.
    pub fn rows(&self, rows: Range<usize>) -> Matrix<'static> {
        let at = |row: usize| self.encoding.bytes_of(row * self.columns).expect("checked when made");
        let scales = self.scales.as_ref().map(|scales| {
            let (first, last) = (scales.above + rows.start, scales.above + rows.end);
            let values = scales.values.rows(first / scales.block.0..last.div_ceil(scales.block.0));
            Box::new(Scales { above: first % scales.block.0, values, ..**scales })
        });
        let bytes = self.bytes[at(rows.start)..at(rows.end)].to_vec().into();
        Matrix { rows: rows.len(), bytes, scales, ..*self }
    }

    /// Some of its columns; none where they are cut out of a block of a quantized one.
    pub fn columns(&self, columns: Range<usize>) -> Option<Matrix<'static>> {
        let scales = match &self.scales {
            None => None,
            Some(scales) => {
                let width = scales.block.1;
                let whole = |column: usize| column == self.columns || column.is_multiple_of(width);
                let of_blocks = columns.start / width..columns.end.div_ceil(width);
                let values = scales.values.columns(of_blocks).filter(|_| whole(columns.start) && whole(columns.end))?;
                Some(Box::new(Scales { values, ..**scales }))
            }
        };
        let at = |element: usize| self.encoding.bytes_of(element).expect("checked when made");
        let of_row = |row: usize| {
            let first = row * self.columns;
            &self.bytes[at(first + columns.start)..at(first + columns.end)]
        };
        let bytes = (0..self.rows).flat_map(of_row).copied().collect::<Vec<_>>().into();
        Some(Matrix { columns: columns.len(), bytes, scales, ..*self })
    }
}
