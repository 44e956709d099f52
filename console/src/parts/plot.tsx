import type { ReactNode } from 'react'

/*
 * Small charts without axes. `places/calls/tally.tsx` and `places/tool/about.tsx` use it. Screen readers get a summary.
 */

/** Small stacked bars without axes: grey for normal values, colours for failures. Screen readers get `summary`. */
export function Bars({ bars, summary, height = 24, gap = 1, className = 'plot' }: BarsProps): ReactNode {
  const max = Math.max(1, ...bars.map((bar) => bar.parts.reduce((sum, { value }) => sum + value, 0)))
  const step = 100 / Math.max(1, bars.length)
  return (
    <svg
      className={className}
      viewBox={`0 0 100 ${height}`}
      preserveAspectRatio="none"
      role="img"
      aria-label={summary}
      height={height}
    >
      {bars.map(({ key, parts }, index) => {
        let top = height
        return parts.map(({ value, tone }) => {
          // A non-zero bar is always visible.
          const barHeight = value === 0 ? 0 : Math.max(1, (value / max) * height)
          top -= barHeight
          return (
            <rect
              key={`${key}-${tone ?? 'ok'}`}
              x={index * step}
              y={top}
              width={Math.max(0.4, step - gap)}
              height={barHeight}
              className={tone}
            />
          )
        })
      })}
    </svg>
  )
}

interface BarsProps {
  readonly bars: readonly {
    readonly key: string
    /** Parts from the bottom up. `tone` is a class in plots.css: `ok`, `bad`, `parked`, `ambiguous`. */
    readonly parts: readonly { readonly value: number; readonly tone?: string }[]
  }[]
  readonly summary: string
  readonly height?: number
  readonly gap?: number
  readonly className?: string
}

/** A line through values, from left to right. A `null` is skipped: the line connects its neighbours. */
export function Line({ values, summary, height = 24 }: LineProps): ReactNode {
  const known = values.filter((value) => value !== null)
  const max = Math.max(1e-9, ...known)
  const step = 100 / Math.max(1, values.length - 1)
  const points = values.flatMap((value, index) =>
    value === null
      ? []
      : [`${(index * step).toFixed(2)},${(height - (value / max) * (height - 2) - 1).toFixed(2)}`],
  )
  return (
    <svg
      className="plot line"
      viewBox={`0 0 100 ${height}`}
      preserveAspectRatio="none"
      role="img"
      aria-label={summary}
      height={height}
    >
      <polyline points={points.join(' ')} vectorEffect="non-scaling-stroke" />
    </svg>
  )
}

interface LineProps {
  readonly values: readonly (number | null)[]
  readonly summary: string
  readonly height?: number
}
