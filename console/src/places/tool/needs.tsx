import { Link } from '@tanstack/react-router'
import type { ReactNode } from 'react'
import { useSession } from '../../api/session.ts'
import { CopyButton } from '../../parts/button.tsx'
import { Icon, type IconName } from '../../parts/icon.tsx'
import type { Requirement, ToolDetails } from './tool-data.ts'

/** What it needs besides its input, whether that is there, and how to give it. */
export function Needs({ tool }: { readonly tool: ToolDetails }): ReactNode {
  return (
    <section aria-labelledby="needs-h" id="needs">
      <h2 id="needs-h">What it needs</h2>
      {tool.requirements.length === 0 ? (
        <p className="soft">Nothing but its input.</p>
      ) : (
        <ul className="needs">
          {tool.requirements.map((need) => (
            <li key={`${need.kind} ${need.id}`}>
              <Icon {...MARKS[need.state]} />
              <div className="grow">
                <p className="strong">{titleOf(need)}</p>
                <p className="meta dim">{[...need.scopes, stateOf(need)].join(' · ')}</p>
                {need.state !== 'met' && <p className="meta soft">{need.connect.says}</p>}
              </div>
              <Connect need={need} />
            </li>
          ))}
        </ul>
      )}
    </section>
  )
}

const MARKS: Readonly<Record<Requirement['state'], { name: IconName; className: string }>> = {
  met: { name: 'succeeded', className: 'is-succeeded' },
  per_user: { name: 'ring', className: 'is-quiet' },
  missing: { name: 'alert', className: 'is-parked' },
  spent: { name: 'alert', className: 'is-parked' },
  scopes: { name: 'alert', className: 'is-parked' },
}

function titleOf({ kind, id }: Requirement): string {
  return kind === 'user' ? 'User id' : kind === 'oauth' ? `${id} account` : `Secret ${id}`
}

function stateOf({ kind, state }: Requirement): string {
  if (kind === 'user')
    return state === 'met' ? 'sent by the caller with each call' : 'your credential names no user'
  return {
    met: 'in the vault',
    missing: 'not given yet',
    spent: 'no longer works',
    scopes: 'does not reach far enough',
    per_user: 'of each user',
  }[state]
}

/** Secrets and accounts are given in Connections. A command does the same for those who are not signed in. */
function Connect({ need }: { readonly need: Requirement }): ReactNode {
  const isKnown = useSession()?.principal !== null
  if (need.kind === 'user') return null
  if (isKnown)
    return (
      <Link
        className="btn sm"
        to="/connections"
        search={{ [need.kind === 'oauth' ? 'connect' : 'secret']: need.id }}
      >
        {need.kind === 'oauth'
          ? need.state === 'met'
            ? 'Connect another'
            : 'Connect'
          : need.state === 'met'
            ? 'Replace secret'
            : 'Set secret'}
      </Link>
    )
  if (need.connect.command === null) return null
  return (
    <CopyButton text={need.connect.command} label={`Copy command that sets ${need.id}`}>
      Copy command
    </CopyButton>
  )
}
