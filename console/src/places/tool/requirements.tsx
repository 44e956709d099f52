import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { type ReactNode, useEffect } from 'react'
import { requestJson } from '../../api/client.ts'
import { holdsScope, useSession } from '../../api/session.ts'
import { quoted } from '../../app/commands.ts'
import { useLocalCommand } from '../../app/page-command.tsx'
import { Button, CopyButton } from '../../parts/button.tsx'
import { Icon, type IconName } from '../../parts/icon.tsx'
import { messageOf } from '../../parts/states.tsx'
import type { Requirement, ToolDetails } from './tool-data.ts'
import { WORDS } from './words.tsx'

/*
 * The requirements of a tool besides its input, whether they are met, and how to meet them. `page.tsx` uses it.
 */

/** Requirements of the tool besides its input, whether they are met, and how to meet them. */
export function Requirements({ tool }: { readonly tool: ToolDetails }): ReactNode {
  return (
    <section aria-labelledby="requirements-heading" id="requirements">
      <h2 id="requirements-heading">{WORDS.requirements}</h2>
      {tool.requirements.length === 0 ? (
        <p className="soft">{WORDS.none}</p>
      ) : (
        <ul className="needs">
          {tool.requirements.map((requirement) => (
            <li key={`${requirement.kind} ${requirement.id}`}>
              <Icon {...MARKS[requirement.state]} />
              <div className="grow">
                <p className="strong">{titleOf(requirement)}</p>
                <p className="meta dim">{[...requirement.scopes, stateOf(requirement)].join(' · ')}</p>
                {requirement.state !== 'met' && <p className="meta soft">{requirement.connect.says}</p>}
              </div>
              {requirement.connect.how === 'call' ? (
                <SendAlong requirement={requirement} tool={tool} />
              ) : (
                <Connect requirement={requirement} />
              )}
            </li>
          ))}
        </ul>
      )}
    </section>
  )
}

function SendAlong({
  requirement,
  tool,
}: {
  readonly requirement: Requirement
  readonly tool: ToolDetails
}): ReactNode {
  const option = requirement.kind === 'oauth' ? '--token' : '--secret'
  const command = useLocalCommand(`collet call ${tool.id} ${option} ${quoted(`${requirement.id}=VALUE`)}`)
  if (requirement.kind === 'user') return null
  return (
    <CopyButton text={command} label={WORDS.copyCommandSends(requirement.id)}>
      {WORDS.copyCommand}
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
  if (kind === 'scope') return WORDS.scope(id)
  return kind === 'user' ? WORDS.userId : kind === 'oauth' ? `${id} account` : WORDS.secret(id)
}

function stateOf({ kind, state }: Requirement): string {
  if (kind === 'scope') return state === 'met' ? WORDS.heldByCaller : WORDS.noCallerHas
  if (kind === 'user')
    return state === 'missing' ? WORDS.yourCredentialNamesNoUser : WORDS.sentByCallerWithEach
  return {
    met: WORDS.inVault,
    missing: WORDS.notSet,
    spent: WORDS.noLongerValid,
    scopes: WORDS.lacksPermission,
    per_user: WORDS.onePerUser,
  }[state]
}

/**
 * A caller authorizes its own account here. Other OAuth accounts are connected in Connections; secrets are set there by people
 * with `admin:secrets`; everything else is set with a command.
 */
function Connect({ requirement }: { readonly requirement: Requirement }): ReactNode {
  const principal = useSession()?.principal ?? null
  if (requirement.kind === 'user' || (requirement.kind === 'scope' && requirement.state === 'met'))
    return null
  if (requirement.kind === 'scope')
    return (
      <CopyButton
        text={requirement.connect.command ?? ''}
        label={WORDS.copyCommandMakesKeyWith(requirement.id)}
      >
        {WORDS.copyCommand}
      </CopyButton>
    )
  if (
    principal !== null &&
    !principal.isOperator &&
    requirement.connect.how === 'consent' &&
    requirement.state !== 'per_user'
  )
    return <ConnectAccount requirement={requirement} />
  if (principal !== null && requirement.kind === 'oauth')
    return (
      <Link className="btn sm" to="/access" search={{ connect: requirement.id }}>
        {WORDS.connect}
      </Link>
    )
  // A user's credential is set with a command that names the user.
  if (holdsScope(principal, 'admin:secrets') && requirement.state !== 'per_user')
    return (
      <Link className="btn sm" to="/access" search={{ set: requirement.id }}>
        {requirement.state === 'met' ? WORDS.replaceSecret : WORDS.setSecret}
      </Link>
    )
  if (requirement.connect.command === null) return null
  return (
    <CopyButton text={requirement.connect.command} label={WORDS.copyCommandSets(requirement.id)}>
      {WORDS.copyCommand}
    </CopyButton>
  )
}

const REFETCH_MS = 2000

/** Makes a link to the provider, and notices when access was granted there. */
function ConnectAccount({ requirement }: { readonly requirement: Requirement }): ReactNode {
  const client = useQueryClient()
  const link = useMutation({
    mutationFn: () =>
      requestJson<{ readonly url: string }>(
        `/admin/providers/${encodeURIComponent(requirement.id)}/connect`,
        {
          method: 'POST',
          body: { scopes: requirement.scopes },
        },
      ),
  })
  const url = link.data?.url
  const challenge = url?.split('/').at(-1) ?? ''
  const { data } = useQuery({
    queryKey: ['challenge', challenge],
    queryFn: ({ signal }) =>
      requestJson<{ readonly status: string }>(`/challenges/${challenge}/status`, { signal }),
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
        {WORDS.go(requirement.id)}
      </a>
    )
  return (
    <Button isSmall writes isBusy={link.isPending} onClick={() => link.mutate()}>
      {requirement.state === 'met' || isGiven ? WORDS.connectAnother : WORDS.connect}
    </Button>
  )
}
