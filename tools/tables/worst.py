"""The sites that are furthest off, from tables that `--parquet` wrote: asked with DuckDB and with Polars, which must agree, and
with --spark of Spark, too, which needs Java.

    parity verify MODEL dump.safetensors --parquet report.parquet
    pip install duckdb polars && python tools/tables/worst.py report.parquet …
    pip install pyspark && python tools/tables/worst.py --spark report.parquet …

Tables of several commands, releases or nights are one: their columns are the same. README says what a statistic is.
"""

import sys

import duckdb
import polars

WORST = """
    SELECT candidate, lens, site, verdict, max(value) AS ratio
    FROM {table}
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
    return duckdb.execute(WORST.format(table="read_parquet(?)"), [files]).fetchall()


def by_polars(files: list[str]) -> list[tuple[object, ...]]:
    table = polars.read_parquet(files)
    assert dict(table.schema) == TYPES, table.schema
    ratios = table.filter(polars.col("statistic") == "worst.ratio", polars.col("verdict").is_not_null())
    ratios = ratios.group_by("candidate", "lens", "site", "verdict").agg(polars.col("value").max().alias("ratio"))
    order = ["ratio", "candidate", "lens", "site"]
    return ratios.sort(order, descending=[True, False, False, False]).head(10).rows()


def by_spark(files: list[str]) -> list[tuple[object, ...]]:
    from pyspark.sql import SparkSession

    settings = {"spark.ui.enabled": "false", "spark.sql.shuffle.partitions": "1"}
    spark = SparkSession.builder.master("local[1]").config(map=settings).getOrCreate()
    table = spark.read.parquet(*files)
    types = {polars.String: "string", polars.Int64: "bigint", polars.Float64: "double"}
    assert dict(table.dtypes) == {name: types[kind] for name, kind in TYPES.items()}, table.dtypes
    table.createOrReplaceTempView("figures")
    return [tuple(row) for row in spark.sql(WORST.format(table="figures")).collect()]


def main(files: list[str], asks_spark: bool) -> None:
    if not files:
        raise SystemExit(__doc__)
    worst = by_duckdb(files)
    assert worst == by_polars(files), "DuckDB and Polars read the same rows"
    assert not asks_spark or worst == by_spark(files), "Spark reads the same rows"
    for candidate, lens, site, verdict, ratio in worst:
        print(f"{ratio:12.4g}  {verdict:12}  {lens or '':6}  {site}  ({candidate})")


if __name__ == "__main__":
    given = sys.argv[1:]
    main([file for file in given if file != "--spark"], "--spark" in given)
