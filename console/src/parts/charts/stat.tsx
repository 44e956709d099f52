import type { ReactNode } from 'react'
import { formatDuration } from '../format.ts'
import './charts.css'

/*
 * Figures in a row above charts. The overview and the page of a tool use it.
 */

/** A run time as the value and unit of a figure. */
export function durationOf(ms: number | null): { readonly value: string; readonly unit?: string } {
  if (ms === null) return { value: '–' }
  const [value = '', ...unit] = formatDuration(ms).split(' ')
  return { value, unit: unit.join(' ') }
}

/** A figure with its name, in a `<dl className="stats">`. */
export function Stat({ name, value, unit = '' }: StatProps): ReactNode {
  return (
    <div className="stat">
      <dt>{name}</dt>
      <dd>
        <b className="num">{value}</b>
        <span className="dim">{unit}</span>
      </dd>
    </div>
  )
}

interface StatProps {
  readonly name: string
  readonly value: string
  readonly unit?: string
}
