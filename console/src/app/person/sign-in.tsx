import { type ReactNode, useEffect, useState } from 'react'
import { ApiError, sessionEnded } from '../../api/client.ts'
import { type Session, useSession, useSignIn, useSignInElsewhere } from '../../api/session.ts'
import { leaveForProvider } from '../../api/session-token.ts'
import { useAction } from '../../parts/action.ts'
import { Button } from '../../parts/button.tsx'
import { CodeLine } from '../../parts/code.tsx'
import { Dialog, DialogForm } from '../../parts/dialog.tsx'
import { TextField } from '../../parts/field.tsx'
import { Empty, messageOf } from '../../parts/states.tsx'
import { useStore } from '../../store.ts'
import { openDialog } from '../pages.ts'
import { WORDS } from './words.tsx'

/*
 * The sign-in dialog, and the text in place of a page that requires a sign-in. Used by `frame.tsx`. A page behind the dialog keeps
 * its state.
 */

/** Replaces a page that requires a sign-in. */
export function SignInNeeded({ isKeyless }: { readonly isKeyless: boolean }): ReactNode {
  return (
    <Empty
      title={WORDS.signInSeeThis}
      actions={<Button onClick={() => openDialog.set('sign-in')}>{WORDS.signIn}</Button>}
    >
      {isKeyless ? WORDS.callsApprovalsConnectionsSettingsNeed : WORDS.thisServerRequiresSignIn}
    </Empty>
  )
}

/**
 * Shown when the session has ended, when the server requires a credential, or when a person chooses "Sign in". It can be closed
 * unless the page cannot be used without a sign-in.
 */
export function SignInDialog(): ReactNode {
  const session = useSession()
  const hasEnded = useStore(sessionEnded)
  const isRequested = useStore(openDialog) === 'sign-in'
  const isSignedOut = session?.principal === null
  const isForced = isSignedOut && !session.server.isOpen
  // On a server with keys, the operator may switch to a caller by entering its key.
  const maySwitchUser = session?.principal?.isOperator === true && !session.server.isOpen
  const isOpen = isForced || hasEnded || (isRequested && (isSignedOut || maySwitchUser))
  useSignInElsewhere(isOpen)
  const who = session?.principal?.id
  useEffect(() => {
    // A sign-in succeeded, here or in another window.
    if (who !== undefined && openDialog.get() === 'sign-in') openDialog.set('nothing')
  }, [who])
  if (session === undefined) return null
  const close = (): void => {
    openDialog.set('nothing')
    sessionEnded.set(false)
  }
  return (
    <Dialog
      title={hasEnded && !isSignedOut ? WORDS.yourSessionHasEnded : WORDS.signIn}
      isOpen={isOpen}
      onClose={isForced || (hasEnded && !isSignedOut) ? undefined : close}
    >
      {hasEnded && !isSignedOut && <p className="soft">{WORDS.nothingOnThisPageLost}</p>}
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
  // The server's message is about an HTTP header, which does not help a person.
  const errorText = (error: unknown): string =>
    error instanceof ApiError && error.status === 401 && !session.server.isOpen
      ? WORDS.unknownKeyMayHaveBeen
      : messageOf(error)
  const { isBusy, failure, fail, run } = useAction(async () => {
    await signIn(key)
    onDone()
  }, errorText)
  return (
    <>
      {oidc !== null && (
        <Button kind="primary" onClick={leaveForProvider}>
          {WORDS.signInWith(oidc)}
        </Button>
      )}
      <DialogForm onSubmit={() => (key.trim() === '' ? fail(WORDS.pasteKeyFirst) : run())}>
        <TextField
          label={WORDS.apiKey}
          note={link === null ? undefined : WORDS.orStartToken}
          error={failure}
          isMono
          type="password"
          value={key}
          onChange={setKey}
        />
        <p className="row end">
          <Button submits kind={oidc === null ? 'primary' : 'plain'} isBusy={isBusy}>
            {WORDS.signInWithKey2}
          </Button>
        </p>
      </DialogForm>
      {link !== null && (
        <div className="stack-3">
          <p className="soft">{WORDS.didYouStartThisServer}</p>
          <CodeLine text={link} label={WORDS.command} />
        </div>
      )}
    </>
  )
}
