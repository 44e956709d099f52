import { Dialog as AriaDialog, DialogHeading } from '@ariakit/react'
import { type ReactNode, useState } from 'react'
import { useAction } from './action.ts'
import { Button } from './button.tsx'
import { TextField } from './field.tsx'
import { Note } from './meaning.tsx'
import { WORDS } from './words.tsx'

/*
 * Dialogs, their forms, and the confirmation of actions that cannot be undone. Used by several pages. A confirmation whose action
 * has failed stays open and shows the error.
 */

/** A dialog over the page. Without `onClose` it cannot be closed. */
export function Dialog({ title, isOpen, onClose, children }: DialogProps): ReactNode {
  return (
    <AriaDialog
      open={isOpen}
      onClose={() => onClose?.()}
      hideOnEscape={onClose !== undefined}
      hideOnInteractOutside={onClose !== undefined}
      className="dialog over"
      backdrop={<div className="backdrop" />}
      unmountOnHide
    >
      <DialogHeading>{title}</DialogHeading>
      {children}
    </AriaDialog>
  )
}

interface DialogProps {
  readonly title: ReactNode
  readonly isOpen: boolean
  readonly onClose?: (() => void) | undefined
  readonly children: ReactNode
}

/** A form in a dialog. The page handles it, and the browser does not submit it. */
export function DialogForm({ onSubmit, children }: DialogFormProps): ReactNode {
  return (
    <form
      className="dialog"
      onSubmit={(event) => {
        event.preventDefault()
        onSubmit()
      }}
    >
      {children}
    </form>
  )
}

interface DialogFormProps {
  readonly onSubmit: () => void
  readonly children: ReactNode
}

/**
 * Asks a person to confirm an action that cannot be undone. `typed` must be typed first. The safe button has the focus. The dialog
 * closes after the action has succeeded, and shows the error if it has failed.
 */
export function ConfirmDialog(props: ConfirmProps): ReactNode {
  const { title, children, typed, verb, keep = WORDS.keep, isOpen, onClose, onConfirm } = props
  const [text, setText] = useState('')
  const { isBusy, failure, run, clearFailure } = useAction(async () => {
    await onConfirm()
    close()
  })
  const close = (): void => {
    setText('')
    clearFailure()
    onClose()
  }
  const isTyped = typed === undefined || text === typed
  return (
    <Dialog title={title} isOpen={isOpen} onClose={close}>
      <DialogForm onSubmit={() => isTyped && run()}>
        <div className="soft">{children}</div>
        {typed !== undefined && (
          <TextField
            label={<span>{WORDS.typeConfirm(<b className="mono">{typed}</b>)}</span>}
            isMono
            value={text}
            onChange={setText}
          />
        )}
        {failure !== undefined && <Note tone="failed">{failure}</Note>}
        <p className="row end">
          <Button onClick={close} data-autofocus="true">
            {keep}
          </Button>
          <Button
            kind="danger"
            submits
            writes
            isBusy={isBusy}
            off={isTyped ? undefined : WORDS.typeFirst(typed)}
          >
            {verb}
          </Button>
        </p>
      </DialogForm>
    </Dialog>
  )
}

interface ConfirmProps {
  readonly title: ReactNode
  readonly children: ReactNode
  readonly typed?: string
  /** The label of the confirming button: "Revoke key". */
  readonly verb: string
  /** The label of the safe button. */
  readonly keep?: string
  readonly isOpen: boolean
  readonly onClose: () => void
  readonly onConfirm: () => Promise<unknown>
}
