import type { ReactNode } from 'react'

/*
 * The texts of Approvals. Its modules use them, and nothing else does.
 */

type Text = string | number

export const WORDS = {
  argumentsAreShownPeopleWith:
    'The arguments are shown to people with the scope approvals:respond. With calls:read you can see them on the page of the call; viewing is recorded in the journal.',
  forWord: ', for ',
  claimedByCallerNotProven: ' (claimed by the caller, not proven).',
  tenantAsksRunThisOnce: (principal: ReactNode, tenant: ReactNode, user: ReactNode) => (
    <>
      {principal} of the tenant {tenant} asks to run this once{user}
    </>
  ),
  expired: 'Expired',
  expiresIn: (exact: ReactNode) => <>Expires in {exact}</>,
  everyCallThisToolNeeds: 'Every call of this tool needs approval.',
  approvalRuleInConfigApplies: 'An approval rule in the config applies to this call.',
  approvalWasRequiredWhenCall: 'Approval was required when the call was made.',
  byToolsAuthor: "(by the tool's author)",
  toolNeededApprovalWhenCall: 'The tool needed approval when the call was made.',
  peopleMustApprove: (quorum: Text, decisions: Text, decisions2: Text) =>
    ` ${quorum} people must approve it; ${decisions} ${decisions2}.`,
  approversNeedScope: (required_scope: ReactNode) => <>Approvers need the scope {required_scope}.</>,
  none: 'None',
  callerBoundThisApproval: (credentials: ReactNode) => (
    <>{credentials} of the caller, bound to this approval</>
  ),
  toolHasChangedSince: ', and the tool has changed since',
  currentlyServed: ', currently served',
  attempt: (approval: Text) => `, attempt ${approval}`,
  requestedAt: (call: ReactNode, approval: ReactNode) => (
    <>
      {call}, requested at {approval}
    </>
  ),
  changesToolSinceCall: 'Changes of the tool since the call',
  toolChangedAfterThisCall: 'The tool changed after this call was made, so the call can only be rejected',
  earlierDefinitionWasNotKept: 'The earlier definition was not kept.',
  definitionUnchangedCodeDifferent: 'The definition is unchanged; the code is different.',
  decisions: 'Decisions',
  readable: 'Readable',
  arguments: 'Arguments',
  showEverything: 'Show everything',
  viewArguments: 'View of the arguments',
  copyArguments: 'Copy arguments',
  hiddenFromYouCallerSent: (hidden: ReactNode, hidden2: ReactNode) => (
    <>
      {hidden} {hidden2} hidden from you: the caller sent the same text as a credential for the tool.
    </>
  ),
  partInputNoLongerKept: 'Part of the input is no longer kept and is not shown.',
  showRemaining: (rest: Text) => `Show the remaining ${rest}`,
  showRemaining2: (fold: Text) => `Show the remaining ${fold}`,
  waitingForDecisionDecidingNeeds: (approval: ReactNode) => (
    <>Waiting for a decision. Deciding needs the scope {approval}.</>
  ),
  yourDecision: 'Your decision',
  reason: 'Reason',
  recordedInJournalRequiredReject: 'recorded in the journal; required to reject',
  enterReasonSoCallerKnows: 'Enter a reason, so that the caller knows what to change.',
  approvalBeingSent: 'The approval is being sent.',
  reject: 'Reject',
  rejectionBeingSent: 'The rejection is being sent.',
  approveOnceIncludingHiddenInput: 'Approve once, including hidden input',
  approveOnce: 'Approve once',
  yourDecisionWasNotRecorded: (failure: ReactNode) => <>{failure} Your decision was not recorded.</>,
  allowsOneAttemptWithExactly:
    'Allows one attempt with exactly these arguments, tool and credentials. Approving runs nothing. The call runs when the caller repeats it.',
  toolHasChangedSinceCall: 'The tool has changed since the call was made, so this call can only be rejected.',
  youHaveNotSeenAll:
    'You have not seen all arguments. Show everything that is folded, and scroll to their end.',
  approvingThisNeedsCredentialWith: (scope: Text) =>
    `Approving this needs a credential with the scope ${scope}, which yours does not have. You cannot share a link for it either.`,
  thisYourOwnCallAnother: 'This is your own call. Another person has to approve it; you may reject it.',
  moreApproval: 'more approval is',
  moreApprovalsAre: 'more approvals are',
  youHaveApprovedNeeded: (quorum: Text) => `You have approved it. ${quorum} needed.`,
  timeDecideHasRunOut: 'The time to decide has run out. The call will not run.',
  approvedRunsWhenCallerRepeats: (by: Text, when: Text) =>
    `Approved${by}${when}. It runs when the caller repeats the call.`,
  approvedCallHasBeenRun: (by: Text, when: Text) => `Approved${by}${when}, and the call has been run.`,
  rejectedCallWillNotRun: (by: Text, when: Text) => `Rejected${by}${when}. The call will not run.`,
  approvalWasNotDecidedOr: 'The approval was not decided or not used in time. The call will not run.',
  callWasCancelledBeforeWas: 'The call was cancelled before it was decided. It will not run.',
  decision: 'Decision',
  approval: 'the approval',
  thereNoSuchApproval: 'There is no such approval',
  mayBelongAnotherTenantOr: 'It may belong to another tenant, or be too old to be kept.',
  approvalCouldNotBeRead: 'The approval could not be read',
  nothingWasDecided: 'Nothing was decided.',
  allApprovals: 'All approvals',
  waiting: 'Waiting',
  youMayDecideUnderAll: (elsewhere: Text) => ` that you may decide; ${elsewhere} under All waiting.`,
  nothing: (elsewhere: ReactNode) => <>Nothing{elsewhere}</>,
  decided: 'Decided',
  nothingYet: 'Nothing yet.',
  moreWaitingForApproval: (count: Text) => `${count} more waiting for approval`,
  toolChanged: 'tool changed',
  of: (decisions: ReactNode, quorum: ReactNode) => (
    <>
      {decisions} of {quorum}
    </>
  ),
  tenant: 'tenant',
  notDecided: 'Not decided',
  noArguments: 'no arguments',
  decide: 'Decide',
  opensApprovalScreenPermitsOne: 'Opens the approval screen and permits one decision.',
  view: 'View',
  showsCallDecidesNothing: 'Shows the call and decides nothing.',
  notAvailableForToolsRun: 'Not available for tools that run commands: approvers must sign in.',
  notAvailableIfSeveralPeople: 'Not available if several people must approve: they must sign in.',
  toolHasChangedSoThis: 'The tool has changed, so this call can no longer be approved.',
  onlyPeopleWhoMayApprove: 'Only people who may approve this call can share it.',
  link: 'Link…',
  shareApprovalLink: 'Share approval link',
  enterNameForExampleAlice: 'Enter a name, for example alice@example.com.',
  approver: 'Approver',
  recordedWithDecision: 'recorded with the decision',
  aliceExampleCom: 'alice@example.com',
  permission: 'Permission',
  cancel: 'Cancel',
  makeLink: 'Make link',
  seeCall: 'see the call',
  sendOnlyPersonWhoHas: (approver: ReactNode, link: ReactNode, expiresAt: ReactNode) => (
    <>
      Send it to {approver} only: a person who has it can {link}. Expires with the request, at {expiresAt}.
    </>
  ),
  link2: 'link',
  decideTheyMustSignIn: (link: ReactNode) => <>To decide, they must sign in as {link}.</>,
  linkOnlyShowsCall: 'The link only shows the call.',
  done: 'Done',
  waitingForMe: 'Waiting for me',
  allWaiting: 'All waiting',
  approvals: 'Approvals',
  whichApprovals: 'Which approvals',
  forOthers: (others: Text) => `, ${others} for others`,
  waitingForYou: (mine: Text, others: Text) => `${mine} waiting for you${others}`,
  inbox: 'Inbox',
  widthInbox: 'Width of the inbox',
  chooseCall: 'Choose a call',
  itsArgumentsAreShownHere: 'Its arguments are shown here before anything runs.',
  nothingDecide: 'Nothing to decide',
  seeToolsNeedApproval: 'See tools that need approval',
  callNeedsApprovalAppearsHere: 'A call that needs approval appears here when it is made.',
  approvals2: 'approvals',
  approvalsCouldNotBeRead: 'Approvals could not be read',
  waitingCallsAreNotAffected: 'Waiting calls are not affected.',
} as const

/** The texts of the page behind an approval link. */
export const LINK_WORDS = {
  title: 'Approve a call?',
  as: (who: ReactNode) => <>as {who}</>,
  afterSignIn: 'You can decide this call after signing in.',
  withCommand:
    'The call cannot be decided on this page. An operator decides it with one of these commands, or sends another person a link:',
  signInAs: (who: string) => `Sign in as ${who}`,
} as const
