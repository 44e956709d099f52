import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { type ReactNode, useEffect } from 'react'
import { request } from '../../api/client.ts'
import { holdsScope, useSession } from '../../api/session.ts'
import { quoted } from '../../app/commands.ts'
import { useLocalCommand } from '../../app/page-command.tsx'
import { Button, CopyButton } from '../../parts/button.tsx'
import { Icon, type IconName } from '../../parts/icon.tsx'
import { messageOf } from '../../parts/states.tsx'
import type { Requirement, ToolDetails } from './tool-data.ts'

/** Requirements of the tool besides its input, whether they are met, and how to meet them. */
export function Needs({ tool }: { readonly tool: ToolDetails }): ReactNode {
  return (
    <section aria-labelledby="needs-h" id="needs">
      <h2 id="needs-h">Requirements</h2>
      {tool.requirements.length === 0 ? (
        <p className="soft">None</p>
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
              {need.connect.how === 'call' ? <SendAlong need={need} tool={tool} /> : <Connect need={need} />}
            </li>
          ))}
        </ul>
      )}
    </section>
  )
}

function SendAlong({ need, tool }: { readonly need: Requirement; readonly tool: ToolDetails }): ReactNode {
  const option = need.kind === 'oauth' ? '--token' : '--secret'
  const command = useLocalCommand(`collet call ${tool.id} ${option} ${quoted(`${need.id}=VALUE`)}`)
  if (need.kind === 'user') return null
  return (
    <CopyButton text={command} label={`Copy command that sends ${need.id}`}>
      Copy command
    </CopyButton>
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
  if (kind === 'scope') return `Scope ${id}`
  return kind === 'user' ? 'User id' : kind === 'oauth' ? `${id} account` : `Secret ${id}`
}

function stateOf({ kind, state }: Requirement): string {
  if (kind === 'scope') return state === 'met' ? 'held by a caller' : 'no caller has it'
  if (kind === 'user')
    return state === 'missing' ? 'your credential names no user' : 'sent by the caller with each call'
  return {
    met: 'in the vault',
    missing: 'not set',
    spent: 'no longer valid',
    scopes: 'lacks a permission',
    per_user: 'one per user',
  }[state]
}

/**
 * A caller authorizes its own account here. Other requirements are set in Connections by people with the scope, or with a command.
 */
function Connect({ need }: { readonly need: Requirement }): ReactNode {
  const principal = useSession()?.principal ?? null
  if (need.kind === 'user' || (need.kind === 'scope' && need.state === 'met')) return null
  if (need.kind === 'scope')
    return (
      <CopyButton text={need.connect.command ?? ''} label={`Copy command that makes a key with ${need.id}`}>
        Copy command
      </CopyButton>
    )
  if (
    principal !== null &&
    !principal.isOperator &&
    need.connect.how === 'consent' &&
    need.state !== 'per_user'
  )
    return <ConnectAccount need={need} />
  if (principal !== null && need.kind === 'oauth')
    return (
      <Link className="btn sm" to="/connections" search={{ connect: need.id }}>
        Connect
      </Link>
    )
  // A user's credential is set with a command that names the user.
  if (holdsScope(principal, 'admin:secrets') && need.state !== 'per_user')
    return (
      <Link className="btn sm" to="/connections" search={{ set: need.id }}>
        {need.state === 'met' ? 'Replace secret' : 'Set secret'}
      </Link>
    )
  if (need.connect.command === null) return null
  return (
    <CopyButton text={need.connect.command} label={`Copy command that sets ${need.id}`}>
      Copy command
    </CopyButton>
  )
}

const REFETCH_MS = 2000

/** Makes a link to the provider, and notices when access was granted there. */
function ConnectAccount({ need }: { readonly need: Requirement }): ReactNode {
  const client = useQueryClient()
  const link = useMutation({
    mutationFn: () =>
      request<{ readonly url: string }>(`/admin/providers/${encodeURIComponent(need.id)}/connect`, {
        method: 'POST',
        body: { scopes: need.scopes },
      }),
  })
  const url = link.data?.url
  const challenge = url?.split('/').at(-1) ?? ''
  const { data } = useQuery({
    queryKey: ['challenge', challenge],
    queryFn: ({ signal }) =>
      request<{ readonly status: string }>(`/challenges/${challenge}/status`, { signal }),
    enabled: url !== undefined,
    refetchInterval: ({ state }) => (state.data?.status === 'completed' ? false : REFETCH_MS),
  })
  const isGiven = data?.status === 'completed'
  useEffect(() => {
    if (isGiven) void client.invalidateQueries({ queryKey: ['tool'] })
  }, [isGiven, client])
  if (link.error !== null) return <span className="is-failed meta">{messageOf(link.error)}</span>
  if (url !== undefined && !isGiven)
    return (
      <a className="btn sm primary" href={url} target="_blank" rel="noreferrer">
        Go to {need.id}
      </a>
    )
  return (
    <Button isSmall writes isBusy={link.isPending} onClick={() => link.mutate()}>
      {need.state === 'met' || isGiven ? 'Connect another' : 'Connect'}
    </Button>
  )
}
