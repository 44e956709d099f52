/** Of the text format, which every scraper reads. */
const CONTENT_TYPE = 'text/plain; version=0.0.4; charset=utf-8'

/** Metrics in the text format of Prometheus. */
export function renderMetrics(metrics: readonly Metric[]): Rendered {
  return { contentType: CONTENT_TYPE, text: metrics.map(renderMetric).join('\n') }
}

/** Metrics in words. */
export interface Rendered {
  readonly contentType: string
  readonly text: string
}

/** Values by size. */
export class Distribution {
  /** Upper bounds of the buckets. */
  readonly bounds: readonly number[]
  /** Values no larger than the bound of the same index, but larger than the one before. */
  readonly buckets: number[]
  count = 0
  sum = 0

  constructor(bounds: readonly number[]) {
    this.bounds = bounds
    this.buckets = bounds.map(() => 0)
  }

  add(value: number): void {
    this.count += 1
    this.sum += value
    const index = this.bounds.findIndex((bound) => value <= bound)
    if (index !== -1) this.buckets[index] = (this.buckets[index] ?? 0) + 1
  }
}

type Labels = Readonly<Record<string, string | number>>

interface Sample {
  /** What a histogram adds to its name: `_bucket`, `_sum`, `_count`. */
  readonly suffix?: string
  readonly labels?: Labels
  readonly value: number
}

/** One metric, with all its samples, as it is now. */
export interface Metric {
  readonly name: string
  readonly help: string
  readonly type: 'counter' | 'gauge' | 'histogram'
  readonly samples: readonly Sample[]
}

/** The buckets of Prometheus are cumulative. */
export function histogramSamples(
  labels: Labels,
  { bounds, buckets, count, sum }: Distribution,
): readonly Sample[] {
  let below = 0
  return [
    ...bounds.map((le, index) => {
      below += buckets[index] ?? 0
      return { suffix: '_bucket', labels: { le, ...labels }, value: below }
    }),
    { suffix: '_bucket', labels: { le: '+Inf', ...labels }, value: count },
    { suffix: '_sum', labels, value: sum },
    { suffix: '_count', labels, value: count },
  ]
}

function renderMetric({ name, help, type, samples }: Metric): string {
  const lines = samples.map(
    ({ suffix = '', labels = {}, value }) => `${name}${suffix}${labelText(labels)} ${value}\n`,
  )
  return `# HELP ${name} ${escaped(help)}\n# TYPE ${name} ${type}\n${lines.join('')}`
}

function labelText(labels: Labels): string {
  const pairs = Object.entries(labels).map(
    ([name, value]) => `${name}="${escaped(String(value)).replaceAll('"', '\\"')}"`,
  )
  return pairs.length === 0 ? '' : `{${pairs.join(',')}}`
}

function escaped(text: string): string {
  return text.replaceAll('\\', '\\\\').replaceAll('\n', '\\n')
}
