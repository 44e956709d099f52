import { Link } from '@tanstack/react-router'
import type { ReactNode } from 'react'
import { useSession } from '../../api/session.ts'
import { Icon } from '../../parts/icon.tsx'
import type { Requirement, ToolDetails } from './tool-data.ts'

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
      <span className="label">
        Credential <span className="dim">from the vault</span>
      </span>
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
          Open Access
        </Link>
      )}
    </div>
  )
}

const NO_CALLER = "none: an operator who runs a tool as a caller does not use the caller's credentials."

function usedOf({ state }: Requirement, who: string): string {
  if (state === 'per_user') return "stored for the call's user."
  switch (state) {
    case 'met':
      return `stored for ${who}.`
    case 'spent':
      return `stored for ${who}, but no longer valid. Connect it again.`
    case 'scopes':
      return `stored for ${who}, but lacks a permission. Connect it again.`
    default:
      return `not stored for ${who} yet.`
  }
}
