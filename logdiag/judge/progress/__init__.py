"""What the job did and when: steps, checkpoints, what is lost, what became slow, when it failed.

In: a `Survey` and a `Judgement`. Out: `Times`, `Progress`, `Mark`s and sentences for the answer.
"""
