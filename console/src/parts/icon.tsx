import type { ReactNode } from 'react'

/*
 * The icons and the logo. Used by several pages. Icons are decorative: each has a word or a label beside it.
 */

/** Icons of 16 by 16 pixels. */
export function Icon({ name, size = 16, className }: IconProps): ReactNode {
  const classes = ['i', size === 16 ? '' : `i-${size}`, className ?? ''].filter((part) => part !== '')
  return (
    <svg className={classes.join(' ')} viewBox="0 0 16 16" aria-hidden="true" focusable="false">
      {DRAWINGS[name]}
    </svg>
  )
}

interface IconProps {
  readonly name: IconName
  readonly size?: 12 | 14 | 16
  readonly className?: string | undefined
}

export type IconName = keyof typeof DRAWINGS

/** The logo: a collet seen from the front. */
export function Mark(): ReactNode {
  return (
    <svg className="mark" viewBox="0 0 20 20" aria-hidden="true" focusable="false">
      <mask id="slits">
        <rect width="20" height="20" fill="white" />
        <g stroke="black" strokeWidth="1.6">
          <path d="M10 10V0" />
          <path d="M10 10V0" transform="rotate(120 10 10)" />
          <path d="M10 10V0" transform="rotate(240 10 10)" />
        </g>
        <circle cx="10" cy="10" r="3.1" fill="black" />
      </mask>
      <circle cx="10" cy="10" r="8.5" fill="currentColor" mask="url(#slits)" />
    </svg>
  )
}

const DRAWINGS = {
  access: (
    <>
      <path d="M8 1.75 13 3.5v4c0 3.1-2 5.5-5 6.75-3-1.25-5-3.65-5-6.75v-4z" />
      <path d="m5.9 8 1.5 1.5L10.25 6.5" />
    </>
  ),
  alert: <path d="M8 2.5 14.25 13H1.75zM8 6.75v2.75M8 11.35v.01" />,
  ambiguous: (
    <>
      <circle cx="8" cy="8" r="6.25" strokeDasharray="2.4 2.5" strokeLinecap="butt" />
      <path d="M6.5 6.6a1.6 1.6 0 1 1 2.3 1.45c-.55.28-.8.55-.8 1.1M8 11.05v.01" />
    </>
  ),
  approvals: (
    <>
      <path d="M13.25 7.5v4a1.75 1.75 0 0 1-1.75 1.75h-7a1.75 1.75 0 0 1-1.75-1.75v-7A1.75 1.75 0 0 1 4.5 2.75h5.25" />
      <path d="M5.5 7.5 8 10l5.5-6" />
    </>
  ),
  audit: (
    <>
      <path d="M3.75 1.75h5.5l3 3v9.5h-8.5z" />
      <path d="M6 7h4M6 9.5h4M6 12h2.5" />
    </>
  ),
  calls: <path d="M1.75 8.25h2.5l2-5 3.25 9.5 2-4.5h2.75" />,
  tools: (
    <>
      <rect x="2.5" y="2.5" width="4.5" height="4.5" rx="1" />
      <rect x="9" y="2.5" width="4.5" height="4.5" rx="1" />
      <rect x="2.5" y="9" width="4.5" height="4.5" rx="1" />
      <rect x="9" y="9" width="4.5" height="4.5" rx="1" />
    </>
  ),
  check: <path d="m3.25 8.5 3.25 3.25 6.25-7" />,
  down: <path d="m4.75 6.5 3.25 3.25 3.25-3.25" />,
  clock: (
    <>
      <circle cx="8" cy="8" r="5.75" />
      <path d="M8 4.75V8l2.25 1.5" />
    </>
  ),
  cloud: <path d="M4.75 12.5a2.75 2.75 0 0 1-.4-5.47 3.75 3.75 0 0 1 7.25.72 2.4 2.4 0 0 1-.1 4.75z" />,
  sources: <path d="M5.75 2v2.75M10.25 2v2.75M3.75 4.75h8.5v2.5a4.25 4.25 0 0 1-8.5 0zM8 11.5V14" />,
  copy: (
    <>
      <rect x="5.5" y="5.5" width="8" height="8" rx="1.5" />
      <path d="M10.5 3.25A1.25 1.25 0 0 0 9.25 2.5h-5.5A1.25 1.25 0 0 0 2.5 3.75v5.5c0 .5.3.95.75 1.15" />
    </>
  ),
  dot: <circle cx="8" cy="8" r="3" fill="currentColor" stroke="none" />,
  external: <path d="M6 3.5h6.5V10M12.25 3.75 4 12" />,
  eye: (
    <>
      <path d="M1.75 8S4 3.75 8 3.75 14.25 8 14.25 8 12 12.25 8 12.25 1.75 8 1.75 8z" />
      <circle cx="8" cy="8" r="1.75" />
    </>
  ),
  failed: (
    <>
      <circle cx="8" cy="8" r="6.75" fill="currentColor" stroke="none" />
      <path d="m5.9 5.9 4.2 4.2M10.1 5.9l-4.2 4.2" stroke="var(--surface)" />
    </>
  ),
  globe: (
    <>
      <circle cx="8" cy="8" r="5.75" />
      <path d="M2.25 8h11.5M8 2.25c2 1.75 2.75 3.6 2.75 5.75S10 12 8 13.75C6 12 5.25 10.15 5.25 8S6 4 8 2.25z" />
    </>
  ),
  hash: <path d="M6.25 2.5 5 13.5M11 2.5 9.75 13.5M2.75 5.75h11M2.25 10.25h11" />,
  key: (
    <>
      <circle cx="5.25" cy="10.75" r="2.75" />
      <path d="m7.25 8.75 6-6M10.5 5.5l2 2" />
    </>
  ),
  lock: (
    <>
      <rect x="3.25" y="7" width="9.5" height="6.5" rx="1.5" />
      <path d="M5.25 7V5.25a2.75 2.75 0 0 1 5.5 0V7" />
    </>
  ),
  loop: <path d="M3 8a5 5 0 0 1 8.6-3.5L13 6M13 2.75V6H9.75M13 8a5 5 0 0 1-8.6 3.5L3 10M3 13.25V10h3.25" />,
  mcp: (
    <>
      <path d="m6.5 9.5 3-3" />
      <path d="M7.25 4.75 8.5 3.5a2.83 2.83 0 0 1 4 4l-1.25 1.25M8.75 11.25 7.5 12.5a2.83 2.83 0 0 1-4-4l1.25-1.25" />
    </>
  ),
  offline: <path d="M1.75 8h4M10.25 8h4M5.75 4.25v7.5M10.25 4.25v7.5" />,
  overview: <path d="M2.25 13.75h11.5M4 11V8.5M7 11V5.5M10 11V7.25M13 11V3" />,
  more: (
    <>
      <circle cx="3.5" cy="8" r="1" fill="currentColor" />
      <circle cx="8" cy="8" r="1" fill="currentColor" />
      <circle cx="12.5" cy="8" r="1" fill="currentColor" />
    </>
  ),
  pack: (
    <>
      <path d="m8 1.75 5.5 3.1v6.3L8 14.25l-5.5-3.1v-6.3z" />
      <path d="M2.75 5 8 8l5.25-3M8 8v6" />
    </>
  ),
  parked: (
    <>
      <circle cx="8" cy="8" r="6" />
      <path d="M6.6 6v4M9.4 6v4" />
    </>
  ),
  pin: <path d="M5.75 2.5h4.5M6.25 2.5v4L4.25 9h7.5l-2-2.5v-4M8 9v4.5" />,
  play: <path d="M5 3.25v9.5l7.5-4.75z" fill="currentColor" />,
  plus: <path d="M8 3v10M3 8h10" />,
  rejected: (
    <>
      <circle cx="8" cy="8" r="6" />
      <path d="m4 12 8-8" />
    </>
  ),
  released: <path d="M12.5 11.5V9.25a2.5 2.5 0 0 0-2.5-2.5H3.5M6.25 3.75l-3 3 3 3" />,
  replayed: <path d="M3.25 8A4.75 4.75 0 1 0 4.9 4.4L3.25 6M3.25 2.75V6H6.5" />,
  right: <path d="m6.5 4.75 3.25 3.25-3.25 3.25" />,
  ring: <circle cx="8" cy="8" r="3.5" />,
  running: (
    <>
      <circle cx="8" cy="8" r="6" opacity=".28" />
      <path d="M8 2a6 6 0 0 1 6 6" />
    </>
  ),
  search: (
    <>
      <circle cx="7" cy="7" r="4.25" />
      <path d="m10.25 10.25 3.25 3.25" />
    </>
  ),
  settings: (
    <>
      <path d="M2 5h6.25M12.25 5H14M2 11h1.75M7.75 11H14" />
      <circle cx="10.25" cy="5" r="1.75" />
      <circle cx="5.75" cy="11" r="1.75" />
    </>
  ),
  skipped: <circle cx="8" cy="8" r="6" strokeDasharray="1 2.75" />,
  succeeded: (
    <>
      <circle cx="8" cy="8" r="6" />
      <path d="m5.5 8.25 1.75 1.75 3.25-3.75" />
    </>
  ),
  terminal: (
    <>
      <rect x="1.75" y="2.75" width="12.5" height="10.5" rx="1.75" />
      <path d="m4.5 6.25 2 1.75-2 1.75M8.25 10h3" />
    </>
  ),
  theme: (
    <>
      <circle cx="8" cy="8" r="5.75" />
      <path d="M8 2.25a5.75 5.75 0 0 1 0 11.5z" fill="currentColor" stroke="none" />
    </>
  ),
  you: (
    <>
      <circle cx="8" cy="5.5" r="2.75" />
      <path d="M2.75 13.5a5.25 5.25 0 0 1 10.5 0" />
    </>
  ),
  workflow: (
    <>
      <circle cx="4" cy="3.75" r="1.75" />
      <circle cx="4" cy="12.25" r="1.75" />
      <circle cx="12" cy="8" r="1.75" />
      <path d="M4 5.5v5M4 8h6.25" />
    </>
  ),
  close: <path d="m4.5 4.5 7 7M11.5 4.5l-7 7" />,
} as const satisfies Readonly<Record<string, ReactNode>>
