import { type ReactNode, Suspense } from 'react'
import { lazyPart } from '../lazy-part.tsx'
import './charts.css'

/*
 * A chart over time with axes, values under the pointer, and selection of a range by dragging. The overview, the list of calls and
 * the page of a tool use it. The drawing library is loaded when the first chart is shown. Screen readers get `summary`.
 */

/** The colour of a series: a class in charts.css. */
type Tone = 'ok' | 'bad' | 'parked' | 'ambiguous' | 'line' | 'strong'

export interface Series {
  readonly name: string
  readonly tone: Tone
  /** One value for each interval; `null` is a gap. */
  readonly values: readonly (number | null)[]
}

export interface ChartProps {
  readonly summary: string
  /** `bars` are stacked in the order of the series, from the bottom up. */
  readonly kind: 'bars' | 'lines'
  /** Start of each interval. */
  readonly times: readonly number[]
  readonly stepMs: number
  readonly series: readonly Series[]
  readonly height?: number
  /** Writes a value of the vertical axis and of the tooltip. */
  readonly format: (value: number) => string
  /** Called with the range that a person selected by dragging. Without it the chart cannot be dragged. */
  readonly onSelect?: (sinceMs: number, untilMs: number) => void
  /** Without the legend, names are shown only in the tooltip. */
  readonly hasLegend?: boolean
}

const Drawing = lazyPart(async () => (await import('./drawing.tsx')).Drawing)

export function Chart(props: ChartProps): ReactNode {
  const { series, hasLegend = series.length > 1 } = props
  return (
    <div className="chart">
      {hasLegend && (
        <ul className="legend" aria-hidden="true">
          {series.map(({ name, tone }) => (
            <li key={name} className={`tone-${tone}`}>
              <span className="ink">{name}</span>
            </li>
          ))}
        </ul>
      )}
      <Suspense fallback={<div className={`plot-area h-${props.height ?? 160}`} />}>
        <Drawing {...props} />
      </Suspense>
    </div>
  )
}
