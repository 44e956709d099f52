import { Link } from '@tanstack/react-router'
import type { ReactNode } from 'react'
import { useSession } from '../../api/session.ts'
import { Icon } from '../../parts/icon.tsx'
import type { Requirement, ToolDetails } from './tool-data.ts'
import { WORDS } from './words.tsx'

/**
 * The credential that the call will use. The vault has one credential per kind and caller, and one for each of
 * the caller's users.
 */
export function CredentialUsed({ tool }: { readonly tool: ToolDetails }): ReactNode {
  const session = useSession()
  const needed = tool.requirements.filter(({ kind }) => kind === 'oauth' || kind === 'secret')
  if (needed.length === 0) return null
  const { principal } = session ?? {}
  const isSignedIn = principal !== null && principal !== undefined && !principal.isOperator
  // On an open server the caller is the person at this machine, signed in or not.
  const who = session?.server.isOpen === true ? 'anonymous' : isSignedIn ? principal.id : undefined
  return (
    <div className="field">
      <span className="label">{WORDS.credential(<span className="dim">{WORDS.fromVault}</span>)}</span>
      <ul className="stack-1">
        {needed.map((need) => (
          <li key={`${need.kind} ${need.id}`} className="row top">
            <Icon
              name={need.state === 'met' ? 'key' : 'alert'}
              size={14}
              className={need.state === 'met' || need.state === 'per_user' ? 'is-quiet' : 'is-parked'}
            />
            <span className="soft">
              <b className="mono">{need.id}</b>: {who === undefined ? NO_CALLER : usedOf(need, who)}
            </span>
          </li>
        ))}
      </ul>
      {principal !== null && (
        <Link className="link meta" to="/access">
          {WORDS.openAccess}
        </Link>
      )}
    </div>
  )
}

const NO_CALLER = WORDS.noneOperatorWhoRunsTool

function usedOf({ state }: Requirement, who: string): string {
  if (state === 'per_user') return WORDS.storedForCallsUser
  switch (state) {
    case 'met':
      return WORDS.storedFor(who)
    case 'spent':
      return WORDS.storedForButNoLonger(who)
    case 'scopes':
      return WORDS.storedForButLacksPermission(who)
    default:
      return WORDS.notStoredForYet(who)
  }
}
