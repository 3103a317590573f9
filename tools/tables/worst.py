"""The sites that are furthest off, from tables that `--parquet` wrote: asked with DuckDB and with Polars, which must agree.

    parity verify MODEL dump.safetensors --parquet report.parquet
    pip install duckdb polars && python tools/tables/worst.py report.parquet …

Tables of several commands, releases or nights are one: their columns are the same. README says what a statistic is.
"""

import sys

import duckdb
import polars

WORST = """
    SELECT candidate, lens, site, verdict, max(value) AS ratio
    FROM read_parquet(?)
    WHERE statistic = 'worst.ratio' AND verdict IS NOT NULL
    GROUP BY ALL ORDER BY ratio DESC, candidate, lens, site LIMIT 10
"""

TYPES = {
    **dict.fromkeys(["model", "candidate", "baseline", "precision", "site", "operator", "lens", "verdict"], polars.String),
    **dict.fromkeys(["request", "step", "layer"], polars.Int64),
    "statistic": polars.String,
    "value": polars.Float64,
}


def by_duckdb(files: list[str]) -> list[tuple[object, ...]]:
    return duckdb.execute(WORST, [files]).fetchall()


def by_polars(files: list[str]) -> list[tuple[object, ...]]:
    table = polars.read_parquet(files)
    assert dict(table.schema) == TYPES, table.schema
    ratios = table.filter(polars.col("statistic") == "worst.ratio", polars.col("verdict").is_not_null())
    ratios = ratios.group_by("candidate", "lens", "site", "verdict").agg(polars.col("value").max().alias("ratio"))
    order = ["ratio", "candidate", "lens", "site"]
    return ratios.sort(order, descending=[True, False, False, False]).head(10).rows()


def main(files: list[str]) -> None:
    if not files:
        raise SystemExit(__doc__)
    worst = by_duckdb(files)
    assert worst == by_polars(files), "DuckDB and Polars read the same rows"
    for candidate, lens, site, verdict, ratio in worst:
        print(f"{ratio:12.4g}  {verdict:12}  {lens or '':6}  {site}  ({candidate})")


if __name__ == "__main__":
    main(sys.argv[1:])
