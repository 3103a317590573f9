//! How values are kept in files: as the texts by which they are named, or as lists of numbers.

/// One value.
pub(crate) mod as_text {
    use std::borrow::Cow;
    use std::fmt::Display;
    use std::str::FromStr;

    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serializer};

    pub(crate) fn serialize<T: Display, S: Serializer>(value: &T, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(value)
    }

    pub(crate) fn deserialize<'de, T: FromStr<Err: Display>, D: Deserializer<'de>>(from: D) -> Result<T, D::Error> {
        Cow::<str>::deserialize(from)?.parse().map_err(D::Error::custom)
    }
}

/// A list of fixed length.
pub(crate) mod as_list {
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serializer};

    pub(crate) fn serialize<const N: usize, S: Serializer>(
        values: &[usize; N],
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(values)
    }

    pub(crate) fn deserialize<'de, const N: usize, D: Deserializer<'de>>(from: D) -> Result<[usize; N], D::Error> {
        let found = Vec::<usize>::deserialize(from)?;
        let count = found.len();
        found.try_into().map_err(|_| D::Error::invalid_length(count, &format!("{N} numbers").as_str()))
    }
}

/// A matrix of levels: rows, columns, and the levels row by row.
pub(crate) mod as_matrix {
    use ndarray::Array2;
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(crate) fn serialize<S: Serializer>(levels: &Array2<u8>, serializer: S) -> Result<S::Ok, S::Error> {
        (levels.dim(), levels.iter().copied().collect::<Vec<u8>>()).serialize(serializer)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Array2<u8>, D::Error> {
        let (dim, levels) = <((usize, usize), Vec<u8>)>::deserialize(from)?;
        Array2::from_shape_vec(dim, levels).map_err(D::Error::custom)
    }
}
