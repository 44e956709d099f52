import type { ReactNode } from 'react'
import { formatClock } from './format.ts'
import { Icon, type IconName } from './icon.tsx'

/*
 * A list of events in order, each with time, icon and text. Used by several pages.
 */

export function Timeline({ label, events, isFlush = false }: TimelineProps): ReactNode {
  return (
    <ol className={isFlush ? 'timeline flush' : 'timeline'} aria-label={label}>
      {events.map((event, index) => (
        <li key={event.key} className={index === events.length - 1 ? 'ev last' : 'ev'}>
          <time dateTime={new Date(event.at).toISOString()}>{formatClock(event.at, { withMs: true })}</time>
          <Icon name={event.icon} className={event.tone ?? 'is-quiet'} />
          <div>
            <p className="ev-t">{event.title}</p>
            {event.detail !== undefined && <div className="ev-d">{event.detail}</div>}
            {event.children}
          </div>
        </li>
      ))}
    </ol>
  )
}

interface TimelineProps {
  readonly label: string
  readonly events: readonly TimelineEvent[]
  readonly isFlush?: boolean
}

export interface TimelineEvent {
  readonly key: string
  readonly at: Date | string | number
  readonly icon: IconName
  /** A colour class: `is-failed`. */
  readonly tone?: string
  readonly title: ReactNode
  readonly detail?: ReactNode
  readonly children?: ReactNode
}
