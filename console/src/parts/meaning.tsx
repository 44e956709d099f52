import type { ReactNode } from 'react'
import { formatAgo, formatExact } from './format.ts'
import { Icon, type IconName } from './icon.tsx'
import { visibleText } from './visible-text.ts'
import { WORDS } from './words.tsx'

/*
 * Marks with a fixed meaning: safety tier, state, tag, note and banner. Used by several pages. None depends on colour alone.
 */

/** The safety tier of a tool, as bars and a word. */
export function Tier({
  tier,
  isChip = false,
}: {
  readonly tier: TierName
  readonly isChip?: boolean
}): ReactNode {
  const lit = TIERS.indexOf(tier)
  return (
    <span className={`tier ${tier}${isChip ? ' chip' : ''}`}>
      <svg viewBox="0 0 12 12" aria-hidden="true" focusable="false" fill="currentColor">
        {BARS.map(({ x, y }, index) => (
          <rect
            key={x}
            x={x}
            y={y}
            width={3}
            height={12 - y}
            rx={0.75}
            className={index < lit ? undefined : 'off'}
          />
        ))}
      </svg>
      {tier}
    </span>
  )
}

const TIERS = ['pure', 'read', 'write', 'exec'] as const
export type TierName = (typeof TIERS)[number]

const BARS = [
  { x: 0, y: 7 },
  { x: 4.5, y: 4 },
  { x: 9, y: 1 },
]

/** The state of a call, as an icon and a word. `isCalm` shows success in grey, for lists. */
export function StateMark({ state, label, isCalm = false, hasWord = true }: StateMarkProps): ReactNode {
  const { icon, tone, word } = STATES[state]
  const isGrey = isCalm && state === 'succeeded'
  return (
    <span className={isGrey ? 'state calm' : `state ${tone}`}>
      <Icon name={icon} size={14} className={state === 'running' ? 'spin' : undefined} />
      <span className={hasWord ? undefined : 'vh'}>{label ?? word}</span>
    </span>
  )
}

interface StateMarkProps {
  readonly state: StateName
  /** A text that replaces the state's word: "Unavailable since 11:47". */
  readonly label?: ReactNode
  readonly isCalm?: boolean
  readonly hasWord?: boolean
}

export type StateName = keyof typeof STATES

const STATES = {
  succeeded: { icon: 'succeeded', tone: 'is-succeeded', word: 'succeeded' },
  failed: { icon: 'failed', tone: 'is-failed', word: 'failed' },
  unavailable: { icon: 'failed', tone: 'is-failed', word: 'unavailable' },
  parked: { icon: 'parked', tone: 'is-parked', word: 'parked' },
  ambiguous: { icon: 'ambiguous', tone: 'is-ambiguous', word: 'ambiguous' },
  running: { icon: 'running', tone: 'is-running', word: 'running' },
  released: { icon: 'released', tone: 'is-released', word: WORDS.canBeRetried },
  replayed: { icon: 'replayed', tone: 'is-quiet', word: 'replayed' },
  rejected: { icon: 'rejected', tone: 'is-failed', word: 'rejected' },
  expired: { icon: 'clock', tone: 'is-quiet', word: 'expired' },
  skipped: { icon: 'skipped', tone: 'is-quiet', word: WORDS.notReached },
} as const satisfies Readonly<Record<string, { icon: IconName; tone: string; word: string }>>

/** An outlined word. `tone` colours it if it needs attention. */
export function Tag({ children, tone, icon }: TagProps): ReactNode {
  return (
    <span className={tone === undefined ? 'tag' : `tag ${tone}`}>
      {icon !== undefined && <Icon name={icon} size={12} />}
      {children}
    </span>
  )
}

interface TagProps {
  readonly children: ReactNode
  readonly tone?: Tone | undefined
  readonly icon?: IconName
}

export type Tone = 'failed' | 'parked' | 'succeeded' | 'ambiguous'

/** `Gmail.` in grey, `GetEmails` in black, without the version. */
export function ToolName({ name }: { readonly name: string }): ReactNode {
  const bare = name.replace(/@[^@]*$/, '')
  const cut = Math.max(bare.lastIndexOf('.'), bare.lastIndexOf('/')) + 1
  return (
    <span className="tool-name">
      <i>{visibleText(bare.slice(0, cut))}</i>
      {visibleText(bare.slice(cut))}
    </span>
  )
}

/** One sentence, with at most one action. */
export function Note({ children, tone, icon, action }: NoteProps): ReactNode {
  return (
    <div className={tone === undefined ? 'note' : `note ${tone}`}>
      <Icon name={icon ?? (tone === undefined ? 'eye' : 'alert')} size={14} />
      <div>
        <p>{children}</p>
        {action !== undefined && <p className="row">{action}</p>}
      </div>
    </div>
  )
}

interface NoteProps {
  readonly children: ReactNode
  readonly tone?: Exclude<Tone, 'succeeded'> | undefined
  readonly icon?: IconName
  readonly action?: ReactNode
}

/** A message for the whole page: offline, session, read-only. */
export function Banner({ icon, children, action }: BannerProps): ReactNode {
  return (
    <div className="banner" role="status">
      <Icon name={icon} size={14} />
      <p>{children}</p>
      {action}
    </div>
  )
}

interface BannerProps {
  readonly icon: IconName
  readonly children: ReactNode
  readonly action?: ReactNode
}

/** How long ago something happened; the exact time is the tooltip. */
export function Ago({ time }: { readonly time: string }): ReactNode {
  return (
    <time dateTime={time} title={formatExact(time)}>
      {formatAgo(time)}
    </time>
  )
}
