import type { ReactNode } from 'react'

/*
 * Small bars without axes. Used by `places/calls/tally.tsx`. Screen readers get a summary.
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
