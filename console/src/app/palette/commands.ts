import { type QueryClient, useQueryClient } from '@tanstack/react-query'
import { useNavigate } from '@tanstack/react-router'
import type { Reloaded } from '../../../../src/admin-api/server.ts'
import { requestJson } from '../../api/client.ts'
import { journalQuery, verifyJournal } from '../../api/journal.ts'
import { holdsScope, holdsServerScope, type Session, useSession, useSignIn } from '../../api/session.ts'
import { setTimeZone, timeZone } from '../../parts/format.ts'
import type { IconName } from '../../parts/icon.tsx'
import { openDialog } from '../pages.ts'
import { toggleTheme } from '../theme.ts'
import { SYNONYMS, WORDS } from './words.ts'

/*
 * What the palette can do besides opening pages. `targets.tsx` lists it. A command that the credential may not use is left out, so
 * the server records no refusal.
 */

export interface Command {
  readonly id: string
  readonly icon: IconName
  readonly label: string
  readonly synonyms: string
  /** Acts at once. */
  readonly run?: () => void
  /** Takes time, and returns the sentence that the palette shows at its end. */
  readonly work?: () => Promise<string>
}

type Candidate = Command & { readonly isAllowed: boolean }

/** The commands that the person may use. */
export function useCommands(): readonly Command[] {
  const session = useSession()
  const client = useQueryClient()
  const navigate = useNavigate()
  const { signOut } = useSignIn()
  if (session === undefined) return []
  const { principal } = session
  const zone = timeZone.get() === 'utc' ? 'local' : 'utc'
  const candidates: readonly Candidate[] = [
    {
      ...{ id: 'create-key', icon: 'key', label: WORDS.createKey, synonyms: SYNONYMS.createKey },
      isAllowed: holdsScope(principal, 'admin:keys'),
      run: () => void navigate({ to: '/access', search: { section: 'keys', create: 'key' } }),
    },
    {
      ...{ id: 'add-source', icon: 'plus', label: WORDS.addSource, synonyms: SYNONYMS.addSource },
      isAllowed: holdsServerScope(principal, 'admin:sources'),
      run: () => void navigate({ to: '/sources', search: { focus: 'add' } }),
    },
    {
      ...{ id: 'verify', icon: 'audit', label: WORDS.verifyJournal, synonyms: SYNONYMS.verifyJournal },
      isAllowed: holdsServerScope(principal, 'audit:read'),
      work: () => verify(client),
    },
    {
      ...{ id: 'reload', icon: 'loop', label: WORDS.reload, synonyms: SYNONYMS.reload },
      isAllowed: holdsServerScope(principal, 'admin:reload'),
      work: () => reload(client),
    },
    {
      ...{ id: 'theme', icon: 'theme', label: WORDS.theme, synonyms: SYNONYMS.theme },
      isAllowed: true,
      run: toggleTheme,
    },
    {
      ...{ id: 'times', icon: 'clock', label: WORDS.times[zone], synonyms: SYNONYMS.times },
      isAllowed: true,
      run: () => setTimeZone(zone),
    },
    {
      ...{ id: 'shortcuts', icon: 'terminal', label: WORDS.shortcuts, synonyms: SYNONYMS.shortcuts },
      isAllowed: true,
      run: () => openDialog.set('keys'),
    },
    signCommand(session, signOut),
  ]
  return candidates.filter(({ isAllowed }) => isAllowed)
}

function signCommand({ principal }: Session, signOut: () => Promise<void>): Candidate {
  return principal === null
    ? {
        ...{ id: 'sign-in', icon: 'key', label: WORDS.signIn, synonyms: SYNONYMS.signIn, isAllowed: true },
        run: () => openDialog.set('sign-in'),
      }
    : {
        ...{
          id: 'sign-out',
          icon: 'lock',
          label: WORDS.signOut,
          synonyms: SYNONYMS.signOut,
          isAllowed: true,
        },
        run: () => void signOut(),
      }
}

/** The server itself ends a check after two minutes. */
const MAX_CHECK_MS = 150_000

async function verify(client: QueryClient): Promise<string> {
  const { ok } = await verifyJournal(() => undefined, AbortSignal.timeout(MAX_CHECK_MS))
  await client.invalidateQueries({ queryKey: journalQuery.queryKey })
  return ok ? WORDS.intact : WORDS.notIntact
}

async function reload(client: QueryClient): Promise<string> {
  const {
    applied,
    needs_restart = [],
    refused = [],
  } = await requestJson<Reloaded>('/admin/reload', {
    method: 'POST',
    body: {},
  })
  void client.invalidateQueries()
  const parts = [
    applied === null || applied.length === 0 ? '' : WORDS.applied(applied.join(', ')),
    needs_restart.length === 0 ? '' : WORDS.needsRestart(needs_restart.join(', ')),
    refused.length === 0 ? '' : WORDS.unchanged(refused.join(' ')),
  ].filter((part) => part !== '')
  return parts.length === 0 ? WORDS.nothingChanged : parts.join(' ')
}
