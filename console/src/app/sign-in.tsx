import { type ReactNode, useEffect, useState } from 'react'
import { ApiError, sessionGone } from '../api/client.ts'
import { type Session, useSession, useSignIn, useSignInElsewhere } from '../api/session.ts'
import { leaveForProvider } from '../api/session-token.ts'
import { useAct } from '../parts/act.ts'
import { Button } from '../parts/button.tsx'
import { CodeLine } from '../parts/code.tsx'
import { Dialog, DialogForm } from '../parts/dialog.tsx'
import { TextField } from '../parts/field.tsx'
import { Empty, messageOf } from '../parts/states.tsx'
import { useStore } from '../store.ts'
import { over } from './places.ts'

/** Replaces a page that requires a sign-in. */
export function SignInNeeded({ isOpen }: { readonly isOpen: boolean }): ReactNode {
  return (
    <Empty title="Sign in to see this" actions={<Button onClick={() => over.set('sign-in')}>Sign in</Button>}>
      {isOpen
        ? 'Calls, approvals, connections and settings need a sign-in.'
        : 'This server requires a sign-in.'}
    </Empty>
  )
}

/**
 * The dialog over a page whose session has ended, and over an empty page of a server that requires a credential. People who may
 * use the page without a sign-in can close it.
 */
export function SignInDialog(): ReactNode {
  const session = useSession()
  const isGone = useStore(sessionGone)
  const isAsked = useStore(over) === 'sign-in'
  const isSignedOut = session?.principal === null
  const isForced = isSignedOut && !session.server.isOpen
  // The operator of a server with keys may sign in as a caller with a key.
  const mayChange = session?.principal?.isOperator === true && !session.server.isOpen
  const isOpen = isForced || isGone || (isAsked && (isSignedOut || mayChange))
  useSignInElsewhere(isOpen)
  const who = session?.principal?.id
  useEffect(() => {
    // A sign-in succeeded, here or in another window.
    if (who !== undefined && over.get() === 'sign-in') over.set('nothing')
  }, [who])
  if (session === undefined) return null
  const close = (): void => {
    over.set('nothing')
    sessionGone.set(false)
  }
  return (
    <Dialog
      title={isGone && !isSignedOut ? 'Your session has ended' : 'Sign in'}
      isOpen={isOpen}
      onClose={isForced || (isGone && !isSignedOut) ? undefined : close}
    >
      {isGone && !isSignedOut && <p className="soft">Your work is kept. Sign in to continue.</p>}
      <SignInForm session={session} onDone={close} />
    </Dialog>
  )
}

interface SignInFormProps {
  readonly session: Session
  readonly onDone: () => void
}

function SignInForm({ session, onDone }: SignInFormProps): ReactNode {
  const { signIn } = useSignIn()
  const [key, setKey] = useState('')
  const { link, oidc } = session.server.signIn
  // The server's message names the HTTP header for programs, which does not help a person.
  const wordsOf = (error: unknown): string =>
    error instanceof ApiError && error.status === 401 && !session.server.isOpen
      ? 'Unknown key. It may have been revoked.'
      : messageOf(error)
  const { isBusy, failure, refuse, run } = useAct(async () => {
    await signIn(key)
    onDone()
  }, wordsOf)
  return (
    <>
      {oidc !== null && (
        <Button kind="primary" onClick={leaveForProvider}>
          Sign in with {oidc}
        </Button>
      )}
      <DialogForm onSubmit={() => (key.trim() === '' ? refuse('Paste a key first.') : run())}>
        <TextField
          label="API key"
          note={link === null ? undefined : 'or the start token'}
          error={failure}
          isMono
          type="password"
          value={key}
          onChange={setKey}
        />
        <p className="row end">
          <Button submits kind={oidc === null ? 'primary' : 'plain'} isBusy={isBusy}>
            Sign in with the key
          </Button>
        </p>
      </DialogForm>
      {link !== null && (
        <div className="stack-3">
          <p className="soft">
            Did you start this server? It printed a link that signs you in as its operator. This command
            prints a new one:
          </p>
          <CodeLine text={link} label="command" />
        </div>
      )}
    </>
  )
}
