//! A struct of points on which readings differ, from a table with one row a point.

/// What has to have a reading in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Common {
    /// Nothing: it may be one in some layers or calls, and another in others.
    Nothing,
    /// All calls, as what is made of a call's place, what a cache holds, and what has sizes.
    Calls,
    /// All layers and calls, as what belongs to no layer.
    Both,
}

/// Makes the struct [`Semantics`](super::Semantics) of a table: for each operator its points, a row a point:
///
/// ```text
/// /// The point, its label, and what each side says.
/// field: read type = what the documents say [, released what the released model has] [, common to calls | both];
/// ```
///
/// Behind an operator's name, too, may stand to what its points are common, those that say nothing else.
///
/// `read` is the function of [`crate::words`] that reads its value: `word`; `number`, `form` for what is written in a form of
/// its own, or `word_or_config`, where `config` leaves the point to the configuration.
macro_rules! table {
    ($(
        $operator:ident $(common to $all:ident)? {
            $(
                $(#[$doc:meta])+
                $field:ident: $read:ident $type:ty = $documents:expr
                $(, released $released:expr)? $(, common to $common:ident)?;
            )+
        }
    )+) => {
        /// One reading of the documents, or of a port that reads them otherwise.
        #[derive(Debug, Clone, Copy, PartialEq)]
        pub struct Semantics {
            $($($(#[$doc])+ pub $field: $type,)+)+
        }

        impl Default for Semantics {
            fn default() -> Self {
                Semantics::DOCUMENTS
            }
        }

        impl Semantics {
            /// The documents' equations where they speak with one voice, and else the released model's.
            pub const DOCUMENTS: Semantics = Semantics { $($($field: $documents,)+)+ };

            /// What the released model computes. On the points that touch M2 the documents' majority is right.
            pub const RELEASED: Semantics = Semantics { $($($($field: $released,)?)+)+ ..Semantics::DOCUMENTS };

            /// Names of all fields by the operator that they concern, which has a file of its name in [`crate::ops`].
            pub const OPERATORS: &[(&str, &[&str])] = &[$((stringify!($operator), &[$(stringify!($field)),+])),+];

            /// What has to have a field in common: of a change of it, where it can be made in some layers or calls alone.
            pub fn common(field: &str) -> Common {
                let own = match field {
                    $($(stringify!($field) => table!(@common $($common)?),)+)+
                    _ => Common::Nothing,
                };
                let of_operator = [$((&[$(stringify!($field)),+][..], table!(@common $($all)?))),+];
                let all = of_operator.into_iter().find(|(fields, _)| fields.contains(&field));
                if own == Common::Nothing { all.map_or(own, |(_, common)| common) } else { own }
            }

            /// Names and values of all fields, in the order of the table.
            pub fn fields(&self) -> Vec<(&'static str, String)> {
                vec![$($((stringify!($field), table!(@shown $read self.$field)),)+)+]
            }

            /// Whether a field's value is a number, or has one, where it is not the configuration's.
            pub fn has_number(field: &str) -> bool {
                match field {
                    $($(stringify!($field) => table!(@number $read),)+)+
                    _ => false,
                }
            }

            /// `self` with one field changed.
            pub fn with(mut self, field: &str, value: &str) -> Result<Self, $crate::error::ParseError> {
                match field {
                    $($(stringify!($field) => self.$field = $crate::words::$read(field, value)?,)+)+
                    _ => {
                        let names = [$($(stringify!($field)),+),+].join(", ");
                        return Err($crate::error::ParseError::new("semantics field", field, format!("one of {names}")));
                    }
                }
                Ok(self)
            }
        }
    };
    (@common) => { Common::Nothing };
    (@common calls) => { Common::Calls };
    (@common both) => { Common::Both };
    (@number number) => { true };
    (@number form) => { true };
    (@number $read:ident) => { false };
    (@shown word $value:expr) => { $value.to_string() };
    (@shown $read:ident $value:expr) => { $crate::words::or_config($value) };
}

pub(super) use table;
